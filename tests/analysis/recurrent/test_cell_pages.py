"""Colored texts."""

import html.parser
import re

import numpy as np
import pytest

from seqjax.analysis.recurrent import cell_pages

TEXT = 'if a < b & "c":\n    <script>alert(1)</script>\n'


class Reader(html.parser.HTMLParser):
    """The text of the <pre> elements, and all tags and attributes."""

    def __init__(self):
        super().__init__()
        self.inside, self.text, self.tags, self.attributes = False, [], set(), []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag == 'pre':
            self.inside = True
            self.text.append('')

    def handle_endtag(self, tag):
        self.inside = self.inside and tag != 'pre'

    def handle_data(self, data):
        if self.inside:
            self.text[-1] += data


@pytest.fixture
def panels():
    values = np.random.default_rng(0).normal(size=len(TEXT))
    return [('h <1>', 'depth', 0.8, values), ('c2', 'quotes', -0.7, -values)]


def test_the_page_shows_the_text_as_it_is_and_loads_nothing(tmp_path, panels):
    cell_pages.write_page(tmp_path / 'index.html', 'A & B', 'about', list(TEXT), panels)
    page = (tmp_path / 'index.html').read_text('utf-8')
    reader = Reader()
    reader.feed(page)
    assert reader.text == [TEXT, TEXT]
    assert not reader.tags & {'script', 'link', 'img', 'iframe'} and 'url(' not in page
    assert all(value.startswith('#') for name, value in reader.attributes if name in ('href', 'src'))
    assert 'A &amp; B' in page and 'h &lt;1&gt;' in page


def test_neighbours_of_one_shade_share_an_element():
    assert cell_pages.colored_text('abc', [1, 1, -1]) == '<span class="c16">ab</span><span class="c0">c</span>'
    assert cell_pages.colored_text(['ab', '<'], [0, 0]) == '<span class="c8">ab&lt;</span>'


def test_colors_go_from_blue_over_white_to_red():
    assert [cell_pages._color(strength) for strength in (-1, 0, 1)] == ['#598cf2', '#ffffff', '#f27366']


def test_long_lines_are_broken_in_the_picture():
    places = cell_pages._places('abcde\nf\ng', lines=3, columns=3)
    assert places == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 3), (1, 1, 4), (2, 0, 6)]


def test_the_picture_is_written(tmp_path, panels):
    cell_pages.plot_text(tmp_path / 'cells.png', re.findall('..?', TEXT, re.DOTALL), [
        (name, feature, r, values[:len(re.findall('..?', TEXT, re.DOTALL))]) for name, feature, r, values in panels])
    assert (tmp_path / 'cells.png').read_bytes().startswith(b'\x89PNG') and len(list(tmp_path.iterdir())) == 1
