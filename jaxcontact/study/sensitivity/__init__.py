"""How results depend on parameters: exact derivatives at a point or over a sweep, and shares of variance over a space.

local(study, by=[...])   derivatives and elasticities of outcomes and curves, exact, through events
sobol(study)             shares of variance: first order, total, second order; [sample] method = "saltelli"
morris(study)            screening by elementary effects; [sample] method = "morris"
dgsm(study)              mean squares of exact derivatives, and the bound on total indices that follows from them
"""

from jaxcontact.study.sensitivity.gradients import dgsm
from jaxcontact.study.sensitivity.local import local
from jaxcontact.study.sensitivity.request import Request, analyse, keeps_runs, read_request
from jaxcontact.study.sensitivity.screening import morris
from jaxcontact.study.sensitivity.variance import sobol

__all__ = ["Request", "analyse", "dgsm", "keeps_runs", "local", "morris", "read_request", "sobol"]
