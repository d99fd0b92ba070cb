"""Every cell by its name, as configs and `nn.Recurrent(cell=...)` spell it."""

from seqjax.ops.recurrence.cell import Cell
from seqjax.ops.recurrence.cells import (
    GRU,
    LSTM,
    CoupledLSTM,
    Elman,
    LayerNormLSTM,
    Orthogonal,
    PeepholeLSTM,
    ProjectedLSTM,
    ResetBeforeGRU,
)
from seqjax.ops.recurrence.linear_cells import LRU, MinGRU, MinLSTM
from seqjax.registry import Registry

CELLS = Registry('cell', {
    'elman': Elman(),
    'relu': Elman('relu'),
    'orthogonal': Orthogonal(),
    'lstm': LSTM(),
    'peephole_lstm': PeepholeLSTM(),
    'coupled_lstm': CoupledLSTM(),
    'layer_norm_lstm': LayerNormLSTM(),
    'projected_lstm': ProjectedLSTM(),
    'gru': GRU(),
    'gru_before': ResetBeforeGRU(),
    'min_gru': MinGRU(),
    'min_lstm': MinLSTM(),
    'lru': LRU(),
})


def make_cell(cell: str | Cell) -> Cell:
    """A cell from its name, or the cell itself."""
    if isinstance(cell, Cell):
        return cell
    found = CELLS[cell]
    return found() if isinstance(found, type) else found  # a class whose fields all have defaults may be registered as it is
