"""A device that was not in its state any more when the run was over: whatever it measured, it is of no state."""

from __future__ import annotations

from doubt_samples import REPLACE, fair, look, run


def test_a_state_that_was_lost():
    seen = REPLACE(fair(run()), device_state_lost="device BOX-1: nat is not in force: `nft list` said nothing")
    (reason,) = look(observation=seen).invalid
    assert reason.startswith(
        "Device left its state: Behind the run, device BOX-1: nat is not in force: `nft list` said"
    )
    assert "the number is not of the state that the row names" in reason


def test_one_that_was_not():
    assert look().invalid == ()
