"""Identification: the model whose outcome matches what was measured."""

from jaxcontact.study.fit.channels import Channel, make_channel
from jaxcontact.study.fit.fitting import Fit, fit, rms_of, score
from jaxcontact.study.fit.problem import Problem
from jaxcontact.study.fit.unknowns import Unknown

__all__ = ["Channel", "Fit", "Problem", "Unknown", "fit", "make_channel", "rms_of", "score"]
