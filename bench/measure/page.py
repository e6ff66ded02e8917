"""The page in headless Chromium: how long it takes to open, to follow a choice, and a frame while it zooms.

The pages are made up: 100,000 distinct stacks in a minute, and an hour of 5,625 columns."""
import os
import shutil
import subprocess
import tempfile
import time

from .build import Unavailable, say
from .numbers import spread

PAGES = {"100,000 stacks": "large", "an hour": "hour"}
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--window-size=1400,900")

# Clicks on boxes of the rows, from above; the milliseconds between the frames of each glide.
ZOOM = """const [rows, done] = arguments, canvas = document.getElementById("canvas"), frames = [];
    const click = row => {
        const box = canvas.getBoundingClientRect(), times = [];
        canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + 0.2 * box.width, clientY: box.top + (row + 0.5) * 21 }));
        return new Promise(resolve => {
            const step = now => {
                times.push(now);
                if (now - times[0] < 200)
                    return requestAnimationFrame(step);
                frames.push(...times.slice(1).map((time, i) => time - times[i]));
                resolve();
            };
            requestAnimationFrame(step);
        });
    };
    rows.reduce((before, row) => before.then(() => click(row)), Promise.resolve()).then(() => done(frames));"""
CHOOSE = """const began = performance.now();
    document.getElementById("heat").dispatchEvent(new KeyboardEvent("keydown", { key: arguments[0], bubbles: true }));
    return performance.now() - began"""


def browser(folder):
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError as why:
        raise Unavailable("python3-selenium is not installed") from why
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise Unavailable("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(driver))


def open_page(driver, path):
    driver.get("about:blank")
    began = time.monotonic()
    driver.get(f"file://{path}")
    while not driver.execute_script("return document.body.dataset.loadMs"):
        time.sleep(0.005)
    return 1000 * (time.monotonic() - began)


def measure_page(driver, path, rounds):
    opened = [open_page(driver, path) for _ in range(rounds)]
    chosen = [driver.execute_script(CHOOSE, key) for key in ("Home", *["ArrowRight"] * 9)]
    driver.execute_script("document.getElementById('heat-all').click()")
    frames = driver.execute_async_script(ZOOM, [2, 3, 4, 0] * 3)
    return {"mb": os.path.getsize(path) / 1e6, "open_ms": spread(opened), "choose_ms": spread(chosen),
            "frame_ms": spread(frames), "frames_a_second": 1000 * len(frames) / sum(frames)}


def measure(programs, quick):
    writer = os.path.join(programs.made, "src", "profile", "write_made_up_profile")
    if not os.access(writer, os.X_OK):
        raise Unavailable("there is no write_made_up_profile: it takes cmocka")
    rows = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver = browser(os.path.join(folder, "browser"))
        try:
            for title, name in PAGES.items():
                say(f"page: {title}")
                path = os.path.join(folder, name + ".html")
                with open(path, "wb") as out:
                    subprocess.run([writer, name, "html"], stdout=out, check=True)
                rows.append({"name": title, **measure_page(driver, path, 2 if quick else 5)})
        finally:
            driver.quit()
    return rows
