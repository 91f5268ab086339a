"""The report of a real sweep in a real browser: Debian's chromium, headless, driven by chromedriver.

usage: report_browser_test.py ROPEWALK OUTPUT_DIRECTORY

Trains a small sweep of which one variant diverges, opens its page, and tries what a reader does. Screenshots of the page,
light and dark, wide and narrow, go to OUTPUT_DIRECTORY.
"""

import base64
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    sys.exit("report_browser_test.py: python3-selenium is missing; './dev setup' installs it")

SWEEP = """
[model]
n_layers = 3
d_model = 16
n_heads = 2
[data]
path = text.txt
[train]
context_length = 32
batch_size = 8
steps = 60
checkpoint_every = 0
[optim]
lr = 5e-3
warmup_steps = 5
[log]
layers_every = 5
attention_every = 10
[eval]
every = 30
lengths = 32, 48, 64, 128
tokens = 2048
[sweep]
name = small
seeds = 1..3
[grid]
position.encoding = none, rope, alibi
[variant slow]
optim.lr = 2e-4
[variant wild]
optim.lr = 1e3
optim.grad_clip = 0
optim.warmup_steps = 0
"""
VARIANTS = ["none", "rope", "alibi", "slow", "wild"]
SEEDS = 3
LINE_CHARTS = ["length", "position", "loss", "grad-norm", "lr", "ratio", "residual", "mean-entropy", "greatest-logit"]
HEAT_MAPS = ["layers-a", "layers-b", "heads-a", "heads-b"]
DIVERGED = 3  # exit code


def program(name):
    path = shutil.which(name)
    if path is None:
        sys.exit(f"report_browser_test.py: {name} is missing; './dev setup' installs it")
    return path


def make_page(ropewalk, directory):
    choose = random.Random(1)
    words = "the rope was laid by long hands in a shed of strands and tar under rain".split()
    (directory / "text.txt").write_text(" ".join(choose.choice(words) for _ in range(12000)))
    (directory / "small.ini").write_text(SWEEP)
    done = subprocess.run([ropewalk, "sweep", "small.ini"], cwd=directory, capture_output=True, text=True)
    if done.returncode != DIVERGED:
        sys.exit(f"the sweep ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return directory / "runs/small/report.html"


class ReportInBrowser(unittest.TestCase):
    ropewalk = ""
    output = pathlib.Path()

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory()
        cls.page = make_page(cls.ropewalk, pathlib.Path(cls.work.name))
        options = Options()
        options.binary_location = program("chromium")
        profile = pathlib.Path(cls.work.name) / "profile"
        for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                     f"--user-data-dir={profile}"]:
            options.add_argument(word)
        options.add_experimental_option("prefs", {"download.default_directory": cls.work.name})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.driver = webdriver.Chrome(service=Service(program("chromedriver")), options=options)
        cls.driver.execute_cdp_cmd("Network.enable", {})

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.work.cleanup()

    def setUp(self):
        self.open(1280, "light")

    def tearDown(self):
        wrong = [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(wrong, [], "the console is quiet")
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        inside = ("data:", "blob:", "chrome:")  # the browser's own first page
        own = (self.page.as_uri(), self.page.parents[2].joinpath("hostile.html").as_uri())
        away = [url for url in urls if not url.startswith(inside) and url not in own]
        self.assertEqual(away, [], "no request leaves the page")
        self.assertIn(self.page.as_uri(), urls, "requests are seen at all")

    def open(self, width, theme, page=None):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get((page or self.page).as_uri())

    def script(self, text, *arguments):
        return self.driver.execute_script("return " + text, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def count(self, selector):
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def click(self, selector):
        found = self.find(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def choose(self, selector, value):
        self.script("(arguments[0].value = arguments[1], arguments[0].dispatchEvent(new Event('change')))", self.find(selector), value)

    def hover(self, chart, share=0.5):
        """Puts the pointer on a chart, at a share of its width, and gives the text of the tooltip."""
        svg = self.find(f"#chart-{chart} svg")
        self.script("arguments[0].scrollIntoView({block: 'center'})", svg)
        offset = int((share - 0.5) * svg.size["width"])
        ActionChains(self.driver).move_to_element_with_offset(svg, offset, -20).perform()
        return self.find("#tooltip").text

    def path(self, chart, variant):
        return self.find(f"#chart-{chart} path.line[data-variant='{variant}']").get_attribute("d")

    def test_every_chart_has_a_line_for_each_variant(self):
        for chart in LINE_CHARTS:
            self.assertEqual(self.count(f"#chart-{chart} path.line"), len(VARIANTS), chart)
        for chart in HEAT_MAPS:
            self.assertEqual(self.count(f"#chart-{chart} svg image"), 2, f"{chart}: cells and the scale of colours")
        self.assertEqual(self.count("figure.chart"), len(LINE_CHARTS) + len(HEAT_MAPS))

    def test_the_verdict_says_what_the_data_separate_and_what_diverged(self):
        verdict = self.find("#verdict").text
        self.assertIn("wild: 3 of 3 runs diverged, earliest at step", verdict)
        self.assertIn("n = 3", verdict)
        self.assertIn("95 % t interval", verdict)
        self.assertIn("same_tokens", verdict)
        self.assertNotIn("slow is best", verdict)

    def test_hover_gives_values(self):
        for chart in LINE_CHARTS:
            self.assertRegex(self.hover(chart), r"\d", chart)
        text = self.hover("loss")
        for name in ["none", "rope", "alibi", "slow"]:
            self.assertIn(name, text)
        self.assertRegex(text, r"step \d+")
        self.assertRegex(self.hover("length", 0.12), r"length 32[\s\S]*n = 3")
        self.assertRegex(self.hover("layers-a", 0.6), r"step \d+.*, layer \d[\s\S]*gradient norm \S+")
        self.assertRegex(self.hover("heads-a", 0.4), r"head \d, layer \d")
        ActionChains(self.driver).move_to_element(self.find("h1")).perform()
        self.assertFalse(self.find("#tooltip").is_displayed())

    def test_the_legend_switches_variants_off_and_on_everywhere(self):
        self.click("#training .legend [data-variant='1']")
        self.assertEqual(self.find("#length .legend [data-variant='1']").get_attribute("aria-pressed"), "false")
        for chart in LINE_CHARTS:
            self.assertEqual(self.count(f"#chart-{chart} path.line"), len(VARIANTS) - 1, chart)
        self.assertNotIn("rope", self.hover("loss"))
        self.click("#length .legend .all")
        for chart in LINE_CHARTS:
            self.assertEqual(self.count(f"#chart-{chart} path.line"), len(VARIANTS), chart)

    def test_scales_axes_smoothing_and_bands_can_be_chosen(self):
        before = self.path("loss", 0)
        self.click("#chart-loss [data-value='log']")
        logarithmic = self.path("loss", 0)
        self.assertNotEqual(before, logarithmic)
        self.assertEqual(self.find("#chart-loss [data-value='log']").get_attribute("aria-pressed"), "true")
        self.click("#chart-loss [data-value='linear']")
        self.assertEqual(self.path("loss", 0), before)
        self.click("#training [data-value='tokens']")
        self.assertIn("training tokens", self.find("#chart-loss svg").text)
        self.choose("#training > .charts > .controls select", "15")
        self.assertNotEqual(self.path("grad-norm", 0), before)
        self.assertIn("running mean over 15 points", self.find("#training").text)
        self.click("#training [data-value='runs']")
        self.assertEqual(self.count("#chart-loss path.line"), len(VARIANTS) * SEEDS)
        band = lambda: self.find("#chart-length path.band").get_attribute("d")
        deviation = band()
        self.choose("#chart-length select", "interval")
        self.assertNotEqual(band(), deviation)
        self.assertIn("95 % t interval", self.find("#chart-length figcaption").text)

    def test_heat_maps_show_any_quantity_module_and_run_in_one_scale(self):
        picture = lambda chart: self.find(f"#chart-{chart} image").get_attribute("href")
        scale = lambda chart: [tick.text for tick in self.driver.find_elements(By.CSS_SELECTOR, f"#chart-{chart} .axis:last-of-type text")]
        first = picture("layers-a")
        self.choose("#gradients .controls label:nth-of-type(2) select", "ffn.up")
        self.assertIn("ffn.up", self.find("#chart-layers-a h3").text)
        self.assertNotEqual(picture("layers-a"), first)
        self.choose("#gradients .controls label:nth-of-type(1) select", "update_ratio")
        self.assertIn("update over parameter norm", self.find("#chart-layers-b h3").text)
        self.choose("#chart-layers-b select", "4")
        self.assertIn("rope-s2", self.find("#chart-layers-b h3").text)
        self.assertEqual(scale("layers-a"), scale("layers-b"))
        self.choose("#chart-layers-b select", "none")
        self.assertEqual(self.count("#chart-layers-b svg"), 0)
        depth = self.path("residual", 0)
        slider = self.find("#chart-residual input")
        self.script("arguments[0].scrollIntoView({block: 'center'})", slider)
        slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        self.assertNotEqual(self.path("residual", 0), depth)

    def test_everything_can_be_done_by_keyboard(self):
        reached = set()
        for _ in range(150):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            reached.add(self.script("(document.activeElement.closest('figure') || document.activeElement).id"))
            reached.add(self.script("document.activeElement.tagName"))
        for chart in LINE_CHARTS + HEAT_MAPS:
            self.assertIn(f"chart-{chart}", reached)
        for tag in ["A", "BUTTON", "SELECT", "INPUT", "svg", "SUMMARY"]:
            self.assertIn(tag, reached)
        chart = self.find("#chart-loss svg")
        self.script("arguments[0].focus()", chart)
        ActionChains(self.driver).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
        self.assertRegex(self.find("#announcement").get_attribute("textContent"), r"step 2: .*none \d")
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.assertFalse(self.find("#tooltip").is_displayed())
        cells = self.find("#chart-layers-a svg")
        self.script("arguments[0].focus()", cells)
        ActionChains(self.driver).send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_RIGHT).perform()
        self.assertRegex(self.find("#announcement").get_attribute("textContent"), r"layer 1: gradient norm")
        self.script("document.querySelector('#training .legend button').focus()")
        ActionChains(self.driver).send_keys(Keys.SPACE).perform()
        self.assertEqual(self.script("document.activeElement.getAttribute('aria-pressed')"), "false")

    def test_the_table_is_sorted_and_filtered(self):
        def column(name):
            names = [head.text for head in self.driver.find_elements(By.CSS_SELECTOR, "#runs thead th")]
            return [row.find_elements(By.CSS_SELECTOR, "th, td")[names.index(name)].text
                    for row in self.driver.find_elements(By.CSS_SELECTOR, "#runs tbody tr") if row.is_displayed()]

        self.assertEqual(len(column("run")), len(VARIANTS) * SEEDS)
        heads = self.driver.find_elements(By.CSS_SELECTOR, "#runs thead button")
        loss = next(head for head in heads if head.text == "training loss")
        self.script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", loss)
        loss.click()
        values = [float(text) for text in column("training loss") if text]
        self.assertEqual(values, sorted(values))
        self.assertGreater(len(values), 10)
        loss.click()
        values = [float(text) for text in column("training loss") if text]
        self.assertEqual(values, sorted(values, reverse=True))
        self.find("#table input").send_keys("WILD diverged")
        self.assertEqual(sorted(column("run")), ["wild-s1", "wild-s2", "wild-s3"])
        self.assertIn("optim.lr", self.find("#runs thead").text)
        self.assertNotIn("model.d_model", self.find("#runs thead").text)

    def test_charts_are_saved_as_csv_and_svg(self):
        def saved(pattern):
            for _ in range(100):
                found = [f for f in pathlib.Path(self.work.name).glob(pattern) if not f.name.endswith(".crdownload")]
                if found:
                    return found[0].read_text()
                time.sleep(0.1)
            self.fail(f"no download {pattern}")

        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.work.name})
        self.click("#chart-length .chart-tools button:nth-child(1)")
        lines = saved("*-length.csv").splitlines()
        self.assertEqual(lines[0], "variant,length,held-out loss by evaluated length,low,high,n")
        self.assertEqual(len(lines), 1 + len(VARIANTS) * 4)
        self.assertRegex(lines[1], r"^none,32,\d\.\d+,\d\.\d+,\d\.\d+,3$")
        self.click("#chart-length .chart-tools button:nth-child(2)")
        svg = saved("*-length.svg")
        self.assertTrue(svg.startswith("<svg"))
        self.assertIn("alibi", svg)
        self.assertNotIn("var(", svg)
        self.click("#chart-layers-a .chart-tools button:nth-child(2)")
        self.assertIn("data:image/png", saved("*-layers-a.svg"))
        self.click("#table .chart-tools button")
        self.assertEqual(len(saved("*-runs.csv").splitlines()), 1 + len(VARIANTS) * SEEDS)

    def test_the_theme_can_be_chosen_against_the_system(self):
        paper = lambda: self.script("getComputedStyle(document.body).backgroundColor")
        light = paper()
        self.click("#theme-switch")
        dark = paper()
        self.assertNotEqual(light, dark)
        self.open(1280, "dark")
        self.assertEqual(paper(), dark)
        self.click("#theme-switch")
        self.assertEqual(paper(), light)

    def test_it_fits_wide_and_narrow_screens_light_and_dark(self):
        for width in [1280, 390]:
            for theme in ["light", "dark"]:
                self.open(width, theme)
                self.assertEqual(self.script("document.documentElement.scrollWidth"), width)
                outside = self.script("Array.from(document.querySelectorAll('figure.chart, .controls, .legend, nav, h1, h2, h3, p, li'))"
                                      ".filter((e) => { const b = e.getBoundingClientRect(); return b.left < -1 || b.right > innerWidth + 1; })"
                                      ".filter((e) => !e.closest('.skip')).map((e) => e.outerHTML.slice(0, 100))")
                self.assertEqual(outside, [], f"{width} {theme}")
                height = self.script("document.documentElement.scrollHeight")
                shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
                    "format": "png", "captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}})
                (self.output / f"report-{theme}-{width}.png").write_bytes(base64.b64decode(shot["data"]))

    def test_names_that_are_markup_stay_names(self):
        name = "<img src=x onerror=alert(1)>'\"&"
        work = pathlib.Path(self.work.name)
        for run, copy in [("rope-s1", name), ("none-s1", "other")]:
            shutil.copytree(work / "runs/small" / run, work / copy, dirs_exist_ok=True)
            summary = work / copy / "summary.json"
            summary.write_text(summary.read_text().replace("same_tokens", "</script><img src=x onerror=alert(2)>"))
        page = work / "hostile.html"
        subprocess.run([self.ropewalk, "report", work / name, work / "other", "-o", page], check=True, capture_output=True)
        self.open(1280, "light", page)
        self.assertEqual(self.count("img, main b"), 0)
        self.assertIn(name, [button.text for button in self.driver.find_elements(By.CSS_SELECTOR, "#training .legend button")])
        self.assertIn(name, self.hover("loss"))
        for part in ["#summary", "#verdict", "#chart-length figcaption"]:
            self.assertIn("</script><img src=x onerror=alert(2)>", self.find(part).text)
        self.open(1280, "light")

    def test_without_scripts_words_tables_and_a_figure_stay(self):
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            self.open(1280, "light")
            self.assertIn("wild: 3 of 3 runs diverged", self.find("#verdict").text)
            self.assertTrue(self.find("#figures svg").is_displayed())
            self.assertEqual(self.count("#figures polyline"), len(VARIANTS) - 1)
            self.assertEqual(self.count("#runs tbody tr"), len(VARIANTS) * SEEDS)
            self.assertIn("±", self.find("#length-tables table").text)
        finally:
            self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    ReportInBrowser.ropewalk = os.path.abspath(sys.argv[1])
    ReportInBrowser.output = pathlib.Path(sys.argv[2])
    ReportInBrowser.output.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
