"""Pages and pictures of what was found: a fit as one self-contained HTML file."""
