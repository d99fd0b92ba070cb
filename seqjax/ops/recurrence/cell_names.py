"""Every cell by its name, as configs and `nn.Recurrent(cell=...)` spell it."""

from seqjax.errors import FieldError, suggestion
from seqjax.ops.recurrence.cells import (
    GRU,
    LSTM,
    Cell,
    CoupledLSTM,
    Elman,
    LayerNormLSTM,
    Orthogonal,
    PeepholeLSTM,
    ProjectedLSTM,
    ResetBeforeGRU,
)
from seqjax.ops.recurrence.linear_cells import LRU, MinGRU, MinLSTM

CELLS = {
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
}


def make_cell(cell):
    """A cell from its name, or the cell itself."""
    if isinstance(cell, Cell):
        return cell
    if not isinstance(cell, str) or cell not in CELLS:
        raise FieldError('cell', cell, f'no such cell; {suggestion(str(cell), CELLS)}')
    return CELLS[cell]
