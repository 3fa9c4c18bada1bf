"""How a run can fail that no provider has a part in, beside the faults of all streams."""

from __future__ import annotations

from typing import Final

from projector.core.faults import Fault

LOG_FULL: Final = Fault("log_full", "server", "The run said more than this host keeps of one.", False)
INTERRUPT_TIMEOUT: Final = Fault("interrupt_timeout", "server", "Nobody answered in time.", False)
REJECTED: Final = Fault("rejected", "server", "A person rejected the decision.", False)
APPROVAL_IN_STEP: Final = Fault(
    "approval_in_step", "server", "A step waits for an approval, which the steps of a workflow cannot be given.", False
)

FAULTS: Final = {fault.code: fault for fault in (LOG_FULL, INTERRUPT_TIMEOUT, REJECTED, APPROVAL_IN_STEP)}
