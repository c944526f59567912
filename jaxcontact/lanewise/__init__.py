"""One loop over the lanes for a whole piece of arithmetic."""

from jaxcontact.lanewise.loop import arrays_are_whole, changes_with, in_one_loop, needed, whole_arrays

__all__ = ["arrays_are_whole", "changes_with", "in_one_loop", "needed", "whole_arrays"]
