"""Every cell by its name, as configs and `nn.Recurrent(cell=...)` spell it."""

from seqjax.ops.recurrence import cells, linear_cells
from seqjax.ops.recurrence.cell import Cell
from seqjax.registry import Registry

CELLS = Registry('cell', {
    'elman': cells.Elman(),
    'relu': cells.Elman('relu'),
    'orthogonal': cells.Orthogonal(),
    'lstm': cells.LSTM(),
    'peephole_lstm': cells.PeepholeLSTM(),
    'coupled_lstm': cells.CoupledLSTM(),
    'layer_norm_lstm': cells.LayerNormLSTM(),
    'projected_lstm': cells.ProjectedLSTM(),
    'gru': cells.GRU(),
    'gru_before': cells.ResetBeforeGRU(),
    'min_gru': linear_cells.MinGRU(),
    'min_lstm': linear_cells.MinLSTM(),
    'lru': linear_cells.LRU(),
})


def make_cell(cell: str | Cell) -> Cell:
    """A cell from its name, or the cell itself."""
    if isinstance(cell, Cell):
        return cell
    found = CELLS[cell]
    return found() if isinstance(found, type) else found  # a class whose fields all have defaults may be registered as it is
