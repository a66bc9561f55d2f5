"""Random loss of single frames in one direction of a veth link: the fault `loss = "0.5 %"` of a simulated link.

    sender [ a ] == TBF == cut into frames == veth == clsact: draw < ratio x 2^32 ? drop : go on == [ b ] receiver

Two changes make it the loss of a wire:

- The sending end cannot segment (see `links.classifier`): the kernel cuts super-packets after the shaper, and every
  draw decides on one frame.
- A classic BPF classifier on the receiving end drops a frame with a probability of round(ratio x 2^32) / 2^32, within
  0.02 % of the ratio from LOWEST_RATIO up. Any frame: ARP and acknowledgements too, as on a bad cable. The counters of
  both ports still count it, as they would for a frame that a device loses behind its port.

Not netem, not even where the kernel has it: as a queue of the sender it draws before super-packets are cut (sch_netem.c
cuts them only to corrupt), so each loss would be one of up to 64 kB. The same holds for its duplicates and its order.

What it cannot do: TCP with a round trip of some 100 us recovers at once, so that 0.5 % of loss costs bbr little more
than 0.5 % of the throughput. A limit on `retransmits` or `frame_loss_ratio` sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pytest_netperf.bench.model import FAULT_SHARES
from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.classifier import CLASSIFIER, cut_into_frames, lose, qdiscs, run_for_fault
from pytest_netperf.links.namespace import Namespace

__all__ = ["HIGHEST_RATIO", "LOWEST_RATIO", "LossCounts", "LossFault", "apply_loss", "loss_threshold"]

LOWEST_RATIO, HIGHEST_RATIO = FAULT_SHARES


class LossCounts(NamedTuple):
    """Frames that arrived since the fault was first set, and how many of them it dropped. The kernel counts to 2^32."""

    frames: int
    dropped: int


@dataclass(frozen=True)
class LossFault:
    """A loss fault in force at the receiving end of one direction. It lives as long as the link."""

    ratio: float
    receiver: Namespace
    receiver_index: int

    def counts(self) -> LossCounts:
        """What the fault has done so far. Raises LinkError when the link or the fault is gone."""
        for qdisc in self.receiver.call(qdiscs, self.receiver.ipr, self.receiver_index):
            if qdisc.get_attr("TCA_KIND") == "clsact":
                stats = qdisc.get_attr("TCA_STATS2")
                return LossCounts(
                    stats.get_attr("TCA_STATS_BASIC")["packets"], stats.get_attr("TCA_STATS_QUEUE")["drops"]
                )
        raise LinkError(f"the loss fault of interface {self.receiver_index} in namespace {self.receiver.name} is gone")


def loss_threshold(ratio: float) -> int:
    """The number below which a uniform 32-bit draw loses the frame. Raises ConfigError for what is no loss ratio."""
    is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
    if not is_number or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        raise ConfigError(
            f"loss ratio {ratio!r}: expected a share from {LOWEST_RATIO:g} to {HIGHEST_RATIO:g} (0.005 is 0.5 %); "
            "for a link without loss leave the fault out"
        )
    return round(ratio * 2**32)


def apply_loss(
    sender: Namespace, sender_index: int, receiver: Namespace, receiver_index: int, ratio: float
) -> LossFault:
    """Lose each frame from ``sender`` to ``receiver`` with probability ``ratio``. Call it once per direction.

    The indices are those of the link's two interfaces. Open connections are affected too; a second call changes the
    ratio. Best set after the link was proved, because ARP and neighbour discovery are lost like everything else.

    Raises ConfigError for a ratio that is no loss ratio, LinkError when the kernel refuses or knows no cls_bpf.
    """
    threshold = loss_threshold(ratio)
    cut_into_frames("loss", sender, sender_index, receiver, receiver_index)
    run_for_fault("loss", receiver, receiver_index, CLASSIFIER, lose, threshold)
    return LossFault(ratio, receiver, receiver_index)
