"""Quality against length: a line a model, over the number of sentences."""

import pytest

from seqjax.analysis import figures, plot_quality_by_length

ROWS = [(4, 7, 80, 82.9), (8, 9, 200, 77.8), (12, 31, 40, 53.6)]


@pytest.fixture
def figure(monkeypatch):
    """Draws as plot_quality_by_length does and returns the figure."""
    def shown(*args, **options):
        kept = []
        monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
        plot_quality_by_length(*args, 'x.png', **options)
        return kept[0]

    return shown


def test_every_model_has_its_line_in_the_middle_of_the_bins(figure):
    worse = [(first, last, count, score / 2) for first, last, count, score in ROWS]
    drawn = figure({'with attention': ROWS, 'nothing yet': [], 'without $_': worse}, metric='chrF')
    axes = drawn.axes[0]
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[5.5, 82.9], [8.5, 77.8], [21.5, 53.6]],
                                                                   [[5.5, 41.45], [8.5, 38.9], [21.5, 26.8]]]
    legend, = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ['with attention', 'without $_']
    assert axes.get_ylabel() == 'chrF' and axes.get_ylim()[0] == 0


def test_bars_behind_the_lines_count_the_sentences(figure):
    axes, behind = figure(dict(model=ROWS)).axes
    assert [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in behind.patches] == [(3.5, 4, 80), (7.5, 2, 200),
                                                                                            (11.5, 20, 40)]
    assert behind.get_zorder() < axes.get_zorder() and not axes.patch.get_visible()
    assert behind.get_ylabel() == 'sentences'


@pytest.mark.parametrize('rows', [[(1, 1, 3, 1.0), (2, 2, 1, 0.5)], [(3, 3, 2, 1.0)], [(1, 40, 3, 1.0)]],
                         ids=['two bins', 'one', 'a wide one'])
def test_lengths_and_counts_have_whole_numbers(rows, figure):
    drawn = figure(dict(model=rows))
    drawn.draw_without_rendering()
    axes, behind = drawn.axes
    for ticks in (axes.get_xticks(), behind.get_yticks()):
        assert len(ticks) and (ticks == ticks.round()).all()


@pytest.mark.parametrize('count', [1, 8])
def test_names_of_models_are_not_cut_off(count, figure):
    drawn = figure({f'a model with a long name and the number {i}': ROWS for i in range(count)})
    drawn.draw_without_rendering()
    assert drawn.bbox_inches.count_contains(drawn.get_tightbbox().corners()) == 4


@pytest.mark.parametrize('curves', [{}, dict(a=[]), {'$\\frac$': ROWS[:1], 'b': ROWS}], ids=['none', 'empty', 'odd name'])
def test_odd_cases_are_drawn_too(curves, tmp_path):
    plot_quality_by_length(curves, tmp_path / 'deep' / 'length.png')
    assert [file.name for file in (tmp_path / 'deep').iterdir()] == ['length.png']
    assert (tmp_path / 'deep' / 'length.png').read_bytes().startswith(b'\x89PNG')
