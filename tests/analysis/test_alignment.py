"""Pictures of attention: every word and weight is at its place and legible, in any script; and how far it is monotone."""


from matplotlib import font_manager, ft2font
import numpy as np
import pytest

from seqjax.analysis import figures, plot_alignment
from seqjax.errors import FieldError

GERMAN = 'Zwei junge Männer sitzen im Garten , und sehen einer Vorführung zu . </s>'.split()
ENGLISH = 'Two young men are sitting in $ garden_chairs $ , </s>'.split()


def draw(T, S, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(S, 0.1), T)


@pytest.fixture
def figure(monkeypatch):
    """Draws as plot_alignment does and returns the figure."""
    def shown(*args, **options):
        kept = []
        monkeypatch.setattr(figures, 'save', lambda figure, path: kept.append(figure))
        plot_alignment(*args, 'x.png', **options)
        return kept[0]

    return shown


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_sources_are_along_the_top_and_targets_down_the_side(figure):
    weights = draw(len(ENGLISH), len(GERMAN))
    drawn = figure(weights, GERMAN, ENGLISH, title='row 3')
    axes = drawn.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert axes.images[0].get_clim() == (0, 1)
    assert (labels(axes.xaxis), labels(axes.yaxis)) == (GERMAN, ENGLISH)
    drawn.draw_without_rendering()
    box = axes.get_window_extent()
    assert all(label.get_window_extent().y0 > box.y1 for label in axes.get_xticklabels())
    heights = [label.get_window_extent().y0 for label in axes.get_yticklabels()]
    assert heights == sorted(heights, reverse=True)
    assert drawn.get_suptitle() == 'row 3'


@pytest.mark.parametrize('T, S', [(1, 1), (5, 6), (12, 60), (60, 12), (120, 90)])
def test_the_picture_grows_and_words_do_not_touch(T, S, figure):
    sources, targets = [f'Wörterbuch{s}' for s in range(S)], [f'dictionary{t}' for t in range(T)]
    drawn = figure(draw(T, S), sources, targets, title='a title ' * 9)
    drawn.draw_without_rendering()
    axes = drawn.axes[0]
    cell = axes.get_window_extent().height / T
    assert cell > (0.2 if max(T, S) <= 60 else 0.1) * drawn.dpi
    assert all(label.get_window_extent().height < cell for label in axes.get_yticklabels())
    assert all(label.get_window_extent().width < cell for label in axes.get_xticklabels())
    assert drawn.bbox_inches.count_contains(drawn.get_tightbbox().corners()) == 4  # nothing is cut off


@pytest.mark.parametrize('word, shown', [('', '·'), (' ', '·'), (' the', '·the'), ('a\nb', 'a·b'), ('\x00\ud800', '··'),
                                         ('$x_2$', '$x_2$'),
                                         ('Donaudampfschifffahrtsgesellschaft', 'Donaudampfschi…ellschaft')])
def test_what_cannot_be_shown_is_a_dot_and_long_words_lose_their_middle(word, shown, figure):
    assert labels(figure([[1.0]], [word], ['a']).axes[0].xaxis) == [shown]


def test_a_single_character_stands_upright(figure):
    labels = figure(draw(1, 3), ('猫', '$', 'cat'), 'a').axes[0].get_xticklabels()
    assert [label.get_rotation() for label in labels] == [0, 0, 90]


@pytest.mark.parametrize('words', ['$\\frac', '吾輩は猫', 'हिन्दी', 'مرحبا', '🙂\U0010ffff', ['', '\t', '</s>']], ids=ascii)
def test_any_script_is_drawn_without_a_warning(words, tmp_path):
    path = tmp_path / 'deep' / 'alignment.png'
    plot_alignment(draw(2, len(words)), words, ('$^$', '$\\frac$'), path, title=f'$\\frac$ {words}')
    assert list(path.parent.iterdir()) == [path] and path.read_bytes().startswith(b'\x89PNG')


def test_what_the_usual_font_lacks_is_taken_from_another(figure):
    families = lambda word: figure([[1.0]], [word], ['a']).axes[0].get_xticklabels()[0].get_fontfamily()
    assert families('Ä') == ['sans-serif']
    usual, other = families('ᶁ')  # in a font that comes with matplotlib, and not in its usual one
    assert ord('ᶁ') in ft2font.FT2Font(font_manager.findfont(other)).get_charmap()


@pytest.mark.parametrize('shape, T, S', [((2, 3), 3, 2), ((2, 3, 1), 2, 3), ((0, 2), 0, 2)], ids=str)
def test_every_word_needs_its_weights(shape, T, S):
    with pytest.raises(FieldError, match=r'^weights=.*: must be \[T, S\] for . target and . source words, at least one'):
        plot_alignment(np.zeros(shape), ['a'] * S, ['b'] * T, 'x.png')
