"""Random loss of single frames in one direction of a veth link: the fault `loss = "0.5 %"` of a simulated link.

    sender [ a ] == TBF == cut into frames == veth == a draw below ratio x 2^32 ? lose it : go on == [ b ] receiver

Two changes make it the loss of a wire:

- The sending end cannot segment (see `links.classifier`): the kernel cuts super-packets after the shaper, and every
  draw decides on one frame. netem in front of the sending end would draw before that (sch_netem.c cuts them only to
  corrupt), so each loss would be one of up to 64 kB.
- At the receiving end netem (`links.netem`), or a classifier where the kernel has no netem, loses a frame with a
  probability of round(ratio x 2^32) / 2^32, within 0.02 % of the ratio from LOWEST_RATIO up. Any frame: ARP and
  acknowledgements too, as on a bad cable. The counters of both ports still count it, as they would for a frame that a
  device loses behind its port.

What it cannot do: TCP with a round trip of some 100 us recovers at once, so that 0.5 % of loss costs bbr little more
than 0.5 % of the throughput. A limit on `retransmits` or `frame_loss_ratio` sees it.
"""

from __future__ import annotations

from typing import NamedTuple

from pytest_netperf.bench.model import FAULT_SHARES, LossMeans
from pytest_netperf.errors import ConfigError, LinkError
from pytest_netperf.links.classifier import CLASSIFIER, lose, qdiscs, run_for_fault, undo
from pytest_netperf.links.namespace import Namespace
from pytest_netperf.links.netem import build_netem, lose_by_netem, netem_drops

__all__ = ["HIGHEST_RATIO", "LOWEST_RATIO", "LossCounts", "RandomLoss", "loss_threshold"]

LOWEST_RATIO, HIGHEST_RATIO = FAULT_SHARES


class LossCounts(NamedTuple):
    """Frames that arrived since the fault was first set, and how many of them it lost. The kernel counts to 2^32."""

    frames: int
    lost: int


class RandomLoss:
    """Loss at the receiving end of one direction, from `begin` to `end`. What the kernel holds goes with the link.

    Frames must arrive one by one (`classifier.cut_into_frames`). ``by`` says what is to draw; None is netem, and the
    classifier where the kernel has none. Raises LinkError where netem is wanted and missing, or the kernel refuses.
    """

    def __init__(self, receiver: Namespace, index: int, by: LossMeans | None = None) -> None:
        self._receiver, self._index = receiver, index
        self._device: int | None = None
        if by != "classifier":
            self._device = run_for_fault("loss", receiver, index, "netem", build_netem)
        if by == "netem" and self._device is None:
            raise LinkError(
                f"loss fault on interface {index} in namespace {receiver.name}: this kernel does not have netem, "
                "or not the ifb device that leads to it. Run `sudo modprobe -a sch_netem ifb`, or use a kernel with "
                "CONFIG_NET_SCH_NETEM and CONFIG_IFB, or leave loss_by out: then a classifier does the same"
            )
        self.by: LossMeans = "classifier" if self._device is None else "netem"
        """What draws for each frame."""

    def begin(self, ratio: float) -> None:
        """Lose each frame with probability ``ratio`` from now on, of open connections too; again with another ratio.

        Best after the link was proved, because ARP and neighbour discovery are lost like everything else. Raises
        ConfigError for a ratio that is no loss ratio, LinkError when the kernel refuses.
        """
        self._set(loss_threshold(ratio))

    def end(self) -> None:
        """Lose nothing more. Raises LinkError."""
        self._set(0)

    def _set(self, threshold: int) -> None:
        where = ("loss", self._receiver, self._index)
        if self._device is not None:
            device = self._device
            run_for_fault(*where, "netem", lambda ipr, _: lose_by_netem(ipr, device, threshold))
        elif threshold:
            run_for_fault(*where, CLASSIFIER, lose, threshold)
        else:
            run_for_fault(*where, CLASSIFIER, undo, "lose")

    def counts(self) -> LossCounts:
        """What the fault has done so far. Raises LinkError when the link or the fault is gone."""
        for qdisc in self._receiver.call(qdiscs, self._receiver.ipr, self._index):
            if qdisc.get_attr("TCA_KIND") == "clsact":
                stats = qdisc.get_attr("TCA_STATS2")
                frames, lost = stats.get_attr("TCA_STATS_BASIC")["packets"], stats.get_attr("TCA_STATS_QUEUE")["drops"]
                if self._device is not None:
                    lost = self._receiver.call(netem_drops, self._receiver.ipr, self._device)
                return LossCounts(frames, lost)
        raise LinkError(f"the loss fault of interface {self._index} in namespace {self._receiver.name} is gone")


def loss_threshold(ratio: float) -> int:
    """The number below which a uniform 32-bit draw loses the frame. Raises ConfigError for what is no loss ratio."""
    is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
    if not is_number or not LOWEST_RATIO <= ratio <= HIGHEST_RATIO:
        raise ConfigError(
            f"loss ratio {ratio!r}: expected a share from {LOWEST_RATIO:g} to {HIGHEST_RATIO:g} (0.005 is 0.5 %); "
            "for a link without loss leave the fault out"
        )
    return round(ratio * 2**32)
