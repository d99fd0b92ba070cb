"""Looking at what a run did."""

from seqjax.analysis.curves import plot_loss, smooth

__all__ = ['plot_loss', 'smooth']
