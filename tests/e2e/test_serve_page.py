"""The page of the last hour in a real browser: dragging over a picture, and where that leads."""

import re
import time

import pytest

from e2e.test_html import By, Page, browser
from lib import golang
from lib.process import wait_until
from lib.served import Served
from selenium.webdriver.common.actions.action_builder import ActionBuilder

pytestmark = pytest.mark.time_limit(180)
HOUR = 3600


def drag(driver, begin, end):
    """Over the first picture, from so many seconds ago to so many seconds ago."""
    left, top, width = driver.execute_script("""const svg = document.querySelector("#hour figure > svg");
        const box = svg.getBoundingClientRect();
        return [box.left, box.top, box.width]""")
    actions = ActionBuilder(driver)
    for step, ago in enumerate((begin, (begin + end) / 2, end)):
        actions.pointer_action.move_to_location(round(left + (1 - ago / HOUR) * width), round(top + 20))
        if not step:
            actions.pointer_action.pointer_down()
    actions.pointer_action.pointer_up()
    actions.perform()


def part(driver):
    return driver.find_element(By.ID, "part")


def averages(driver):
    rows = [row.text for row in part(driver).find_elements(By.CSS_SELECTOR, "tr")]
    return {found[1]: float(found[2].replace(",", "")) for row in rows
            if (found := re.match(r"(\w+) ([\d.,]+) ", row))}


def test_dragging_selects_a_time_and_leads_to_its_flame_graph(targets):
    """Ten goroutines receive from a channel, all the time. Before gospect began there is nothing."""
    program = targets.start("states", golang.NEWEST, args=("-only", "chan", "-extra", "10"))
    with Served("-p", program.pid) as server, browser() as driver:
        page = f"/{program.pid}/"

        def looks():
            found = re.search(r' data-beats="([^"]*)"', server.get(page).data.decode())
            return found[1].count(";") if found else 0

        wait_until(lambda: looks() >= 3, 60, "three looks")
        began = time.time()
        driver.get(server.url.rstrip("/") + page)
        drag(driver, 60, 0)
        assert part(driver).find_element(By.TAG_NAME, "h2").text.endswith("1 min")
        found = averages(driver)
        assert found["waiting"] >= 10 and found["goroutines"] >= found["waiting"]
        # A pixel is three seconds.
        links = {a.text: a.get_attribute("href") for a in part(driver).find_elements(By.TAG_NAME, "a")}
        begin, end = map(float, re.search(r"from=([\d.]+)&to=([\d.]+)", links["Flame graph"]).groups())
        assert end == pytest.approx(began, abs=10) and end - begin == pytest.approx(60, abs=6)
        assert driver.find_elements(By.CSS_SELECTOR, "#hour .mark")
        assert server.get(links["folded"][len(server.url.rstrip("/")):]).data.count(b"main.waitForChannel") >= 1

        driver.get(links["Flame graph"])
        graph = Page(driver)
        wait_until(lambda: graph.body("loadMs"), 60, what="the flame graph")
        graph.keys("h")
        assert "main.waitForChannel" in " ".join(graph.rows())
        driver.back()

        drag(driver, 1900, 1700)
        assert "gospect did not look then" in part(driver).text
        assert not [e for e in driver.get_log("browser") if e["level"] == "SEVERE"]
