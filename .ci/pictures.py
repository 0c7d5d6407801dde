#!/usr/bin/env python3
"""Makes the pictures of the documentation (docs/pictures) from a real run: the README's first command, in a folder of its own.

    cargo build --release && pip install pillow websocket-client && .ci/pictures.py target/release/evenkeel

Needs chromium. The terminal is an SVG of what the command prints, the rest are screenshots with few colours.
"""
import base64
import fcntl
import html
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request

import websocket
from PIL import Image

TO = pathlib.Path(__file__).parents[1] / "docs/pictures"
COLUMNS, PORT = 132, 18439
MOST_BYTES = 150_000
# Colour scheme, width, height.
LIGHT, DARK = 1, 0


class Terminal:
    """The lines of a terminal, as far as progress bars need one."""

    def __init__(self):
        self.lines, self.row, self.column, self.seen = [""], 0, 0, []

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.|[\r\n]|[^\x1b\r\n]+", text):
            if part == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part == "\r":
                self.column = 0
            elif part[0] != "\x1b":
                for character in part:
                    # A line that is full goes on in the next one.
                    if self.column == COLUMNS:
                        self.row, self.column = self.row + 1, 0
                        self.lines += [""] * (self.row + 1 - len(self.lines))
                    line = self.lines[self.row].ljust(self.column)
                    self.lines[self.row] = line[: self.column] + character + line[self.column + 1:]
                    self.column += 1
            elif part[-1] in "AB":
                count = int(part[2:-1] or 1)
                self.row = max(0, self.row - count if part[-1] == "A" else self.row + count)
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part[-1] == "K":
                self.lines[self.row] = "" if part[2:-1] == "2" else self.lines[self.row][: self.column]

    def text(self):
        return [line.rstrip() for line in self.lines if line.strip()]


def svg(lines, path):
    """Lines of a terminal as a picture in the colours of the page around it: light, or dark."""
    height = 20 * len(lines) + 28
    rows = "\n".join(
        f'  <text x="16" y="{32 + 20 * row}" xml:space="preserve">{html.escape(line)}</text>' for row, line in enumerate(lines) if line
    )
    width = 16 * 2 + int(8.45 * max(map(len, lines)))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">\n'
        "  <style>\n"
        "    rect { fill: #f6f8fa; stroke: #d0d7de } text { fill: #1f2328 }\n"
        "    @media (prefers-color-scheme: dark) { rect { fill: #15191c; stroke: #57606a } text { fill: #d7dde2 } }\n"
        "  </style>\n"
        f'  <rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{rows}\n</svg>\n'
    )


def keep(whole, name, box):
    """A part of a picture in few colours."""
    path = TO / f"{name}.png"
    Image.open(whole).crop(box).convert("RGB").quantize(48, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES, f"{path} has {path.stat().st_size} bytes"


def chromium(folder, *arguments):
    return ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            f"--user-data-dir={folder}/chromium", *arguments]


def screenshot(url, name, size, scheme, folder):
    """Of a page that is complete once it is loaded."""
    whole = pathlib.Path(folder) / "shot.png"
    command = chromium(
        folder, f"--window-size={size[0]},{size[1]}", f"--blink-settings=preferredColorScheme={scheme}", f"--screenshot={whole}", url
    )
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180)
    keep(whole, name, (0, 0, *size))


def screenshot_of_live(url, name, size, folder):
    """Of a page whose stream of events never ends: as soon as its services are there, over the DevTools protocol."""
    command = chromium(folder, f"--window-size={size[0]},{size[1]}", f"--remote-debugging-port={PORT + 1}", url)
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while True:
            assert time.monotonic() < deadline, "the page does not come"
            time.sleep(0.5)
            try:
                pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{PORT + 1}/json/list", timeout=5))
            except OSError:
                continue
            pages = [page for page in pages if page["url"] == url]
            if pages:
                break
        socket = websocket.create_connection(pages[0]["webSocketDebuggerUrl"], suppress_origin=True, timeout=120)

        def call(method, **parameters):
            socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
            while (answer := json.loads(socket.recv())).get("id") != 1:
                pass
            return answer["result"]

        call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        while "Services" not in call("Runtime.evaluate", expression="document.body.innerText")["result"].get("value", ""):
            assert time.monotonic() < deadline, "no services come"
            time.sleep(0.5)
        whole = pathlib.Path(folder) / "live.png"
        whole.write_bytes(base64.b64decode(call("Page.captureScreenshot")["data"]))
        socket.close()
        keep(whole, name, (0, 0, *size))
    finally:
        browser.terminate()
        browser.wait()


def main(program):
    TO.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pid, terminal_fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execv(program, [program, "train", "--set", f"page.listen={PORT}"])
        fcntl.ioctl(terminal_fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        terminal, during = Terminal(), []

        def read():
            pending = b""
            while True:
                try:
                    pending += os.read(terminal_fd, 65536)
                except OSError:
                    return
                text = pending.decode(errors="ignore")
                pending = b""
                terminal.feed(text)
                if not during and any(re.search(r"training .* 4[0-9]/80 .*samples", line) for line in terminal.text()):
                    during.extend(terminal.text())

        reader = threading.Thread(target=read)
        reader.start()
        while not during:
            assert reader.is_alive(), f"it ended without having trained: {terminal.text()}"
            time.sleep(0.2)
        address = f"http://127.0.0.1:{PORT}/run/arithmetic-0"
        urllib.request.urlopen(address).read()
        screenshot_of_live(address, "page", (1440, 900), folder)
        reader.join()
        bars = [re.sub(r"( samples).*", r"\1", line) for line in during if re.match(r"(warm start|training) ", line)]
        result = terminal.text()
        begin = next(index for index, line in enumerate(result) if re.match(r"80 steps in", line))
        # Heads of the receipt change with every version, and the second one with every run.
        said = [line.replace(f"{os.path.realpath(folder)}/", "") for line in result[begin:] if "sha256:" not in line]
        svg(["$ evenkeel train", *bars, "", *said], TO / "terminal.svg")
        report = f"file://{folder}/runs/arithmetic-0/report.html"
        screenshot(report, "report", (1440, 1100), LIGHT, folder)
        screenshot(report, "report-dark", (1440, 1100), DARK, folder)
        screenshot(report, "report-phone", (390, 1100), LIGHT, folder)
    for path in sorted(TO.iterdir()):
        print(f"{path.stat().st_size:8} {path}")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
