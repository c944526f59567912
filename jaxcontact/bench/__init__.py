"""How fast this machine is, always against something else in the same run: other tools, other settings, other sizes."""
