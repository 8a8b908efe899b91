"""The HTML report in a real browser: it fits narrow and wide windows, follows the theme, prints."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.hostile_results import hostile_results
from support.report_results import make_attribution, make_fit, make_results, make_run

from tfopt_core.statistics.results import Results
from tfopt_core.training.messages import Block

pytest.importorskip("jinja2", reason="the report extra is not installed")

from tfopt_core.report.html.page import html_page

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to drive"),
]
HOSTILE = "<img src=x onerror=parent.hacked=1><script>parent.hacked=1</script>" * 2
# A page that shows the report in frames of both widths and writes what it sees of them.
LOOK = """<!DOCTYPE html><body><script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement, cut = [];
    const bands = [...page.querySelectorAll("rect.band")].map(band => band.getBBox());
    const met = [...page.querySelectorAll("svg text.name")].map(text => text.getBBox()).filter(
      text => bands.some(band => text.y + text.height > band.y + 1 && text.y < band.y + band.height)
    ).length;
    const wide = [...page.querySelectorAll(".scroll")].filter(
      table => table.scrollWidth > table.clientWidth).length;
    const gains = page.querySelector("svg");
    for (const svg of page.querySelectorAll("svg")) {
      const box = svg.viewBox.baseVal;
      for (const text of svg.querySelectorAll("text")) {
        const at = text.getBBox();
        if (at.x < -1 || at.y < -1 || at.x + at.width > box.width + 1
            || at.y + at.height > box.height + 4) cut.push(text.textContent);
      }
    }
    return {
      width: frame.clientWidth, scrolled: root.scrollWidth, cut: cut, met: met, wide: wide,
      bottom: gains ? gains.getBoundingClientRect().bottom : 0,
      charts: page.querySelectorAll("svg").length,
      smallest: Math.min(...[...page.querySelectorAll("svg text")].map(
        text => text.getBoundingClientRect().height)),
      paper: getComputedStyle(page.querySelector(".tfopt-report")).backgroundColor,
      headings: [...page.querySelectorAll("h1, h2")].map(h => h.textContent),
    };
  });
  document.body.innerHTML = "<pre></pre>";
  document.querySelector("pre").textContent = JSON.stringify({hacked: window.hacked || 0, seen});
});
</script>FRAMES</body>"""


def browse(folder: Path, *options: str) -> str:
    """What Chromium prints. Its sandbox is for pages of others, and refuses to run for root."""
    command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={folder / 'profile'}", *options]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


def look_at(results: Results, folder: Path, *options: str) -> dict[str, Any]:
    """What a browser shows of the report with all of it unfolded, at 1280 and at 400 pixels."""
    source = html.escape(html_page(results).replace("<details>", "<details open>"))
    frames = "".join(
        f'<iframe style="width:{width}px;height:900px;border:0" srcdoc="{source}"></iframe>'
        for width in (1280, 400)
    )
    page = folder / "look.html"
    page.write_text(LOOK.replace("FRAMES", frames), encoding="utf-8")
    printed = browse(folder, *options, "--window-size=1400,900", "--dump-dom", page.as_uri())
    [found] = re.findall(r"<pre>(.*)</pre>", printed, re.DOTALL)
    return json.loads(html.unescape(found))


def measured() -> Results:
    """Long names, long numbers, every chart."""
    name = "a-plugin-with-a-name-that-nobody-would-want-to-type"
    blocks = tuple(Block(10, 0.1 + n % 7 / 100, n // 30, "trace" * (n == 0)) for n in range(90))
    history = {f"val_{name}": (123456.7, 99999.1), "loss": (1e-7, 2e-7), "one_epoch": (0.5,)}
    fit = make_fit(blocks=blocks, history=history)
    variants = ("baseline", "full", f"without {name}", "without another")
    share = attrs.evolve(make_attribution(name, 120.5, "120x"), low=101.0, high=140.0)
    return make_results(
        runs=tuple(make_run(n, variants[n % 4], fits=(fit,)) for n in range(16)),
        attribution=(share,), resolved={name: {"key": "x" * 300}}, recipe_toml="x = 1\n" * 40,
    )  # fmt: skip


def test_the_report_fits_wide_and_narrow_windows_and_cuts_no_label(tmp_path):
    wide, narrow = look_at(measured(), tmp_path)["seen"]
    for frame, width in ((wide, 1280), (narrow, 400)):
        assert frame["width"] == width
        assert frame["scrolled"] <= width
        assert frame["cut"] == []
        assert 0 < frame["bottom"] <= 900
        assert frame["met"] == 0
        assert frame["charts"] == 7  # gains, four variants, two metrics
        assert frame["smallest"] >= 9
        assert "Step times of each run" in frame["headings"]
    assert narrow["paper"] == "rgb(255, 255, 255)"


def test_on_a_telephone_no_figure_of_an_ordinary_report_is_cut_off(tmp_path):
    found = look_at(make_results(runs=tuple(
        make_run(n, ("baseline", "full")[n % 2], wall_seconds=1234.5) for n in range(12)
    )), tmp_path)  # fmt: skip
    assert [frame["wide"] for frame in found["seen"]] == [0, 0]


@pytest.mark.promise(31, injected="hostile names in a page that a browser opens")
def test_hostile_names_run_nothing_and_the_theme_is_followed(tmp_path):
    found = look_at(hostile_results(HOSTILE), tmp_path, "--blink-settings=preferredColorScheme=0")
    assert found["hacked"] == 0
    wide, narrow = found["seen"]
    assert HOSTILE in wide["headings"][0]
    assert wide["paper"] == narrow["paper"] == "rgb(21, 24, 29)"
    assert narrow["scrolled"] <= 400
