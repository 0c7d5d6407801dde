// Follows the stream of events of this page. Sections come as HTML that the server has escaped; whatever a model wrote comes as JSON and
// becomes text nodes, never markup.
"use strict";

const RECONNECT_MS = 3000;
const MOST_SAMPLES = 40;
const MOST_LINES = 200;

const place = (id) => document.getElementById(id);

/** An element with a class and children; texts become text nodes. */
function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** The part of a section under its heading; the heading is made with it. */
function body(id, title, tag, name) {
  const section = place(id);
  let found = section.querySelector(":scope > " + tag);
  if (!found) {
    found = element(tag, name);
    section.replaceChildren(element("h2", "", title), found);
  }
  return found;
}

/** Replaces a section; what the reader has opened, ticked or scrolled stays so. */
function replaceSection({ id, html }) {
  const section = place(id);
  if (!section || (html === "" && section.childNodes.length > 0)) return;
  const open = new Set([...section.querySelectorAll("details[open]")].map((details) => details.dataset.key));
  const ticks = new Map([...section.querySelectorAll("input[type=checkbox]")].map((input) => [input.value, input.checked]));
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  for (const details of parsed.content.querySelectorAll("details")) details.open = open.has(details.dataset.key);
  for (const input of parsed.content.querySelectorAll("input[type=checkbox]")) {
    if (ticks.has(input.value)) input.checked = ticks.get(input.value);
  }
  section.replaceChildren(parsed.content);
}

function showStatus(text, isLost) {
  const bar = element("p", "status", isLost ? element("span", "lost", "connection lost, trying again") : element("b", "", "live"));
  if (text) bar.append(" · " + text);
  place("live").replaceChildren(bar);
}

function showServices(services) {
  const section = place("services");
  if (services.length === 0) {
    section.replaceChildren();
    return;
  }
  const item = (service) =>
    element(
      "li",
      "",
      element("b", "", service.name + (service.awaited ? " · the step waits for it" : "")),
      element("span", "", [service.health, service.load].filter(Boolean).join(" · ")),
      element("span", "", service.endpoint),
    );
  body("services", "Services", "ul", "services").replaceChildren(...services.map(item));
}

function showTurn(turn) {
  const kind = turn.trained ? "sampled" : "added, not trained on";
  const reward = turn.reward === null ? "" : " · reward " + +turn.reward.toPrecision(4);
  return [element("span", "soft", turn.role + " · " + turn.tokens + " tokens, " + kind + reward), element("pre", turn.trained ? "sampled" : "added", turn.text)];
}

function showSamples(samples) {
  const list = body("stream", "Newest answers, some of them", "ul", "stream");
  for (const sample of samples) {
    const reward = sample.reward === null ? "" : " · reward " + sample.reward;
    const title =
      sample.purpose + " after " + sample.step + " steps · " + sample.verdict + (sample.reason ? " (" + sample.reason + ")" : "") +
      reward + " · " + sample.tokens + " tokens, " + sample.finish;
    const parts = Object.entries(sample.components).map(([name, value]) => name + " " + +value.toPrecision(4));
    const said = sample.turns.length ? sample.turns.flatMap(showTurn) : [element("pre", "", sample.text)];
    const gold = sample.gold ? element("span", "soft", "Gold: " + sample.gold) : null;
    const rewardParts = parts.length ? element("span", "soft", "Reward: " + parts.join(" · ")) : null;
    const item = element("li", "", element("b", "", title), element("pre", "", sample.prompt), ...said, rewardParts, gold);
    list.prepend(item);
  }
  while (list.children.length > MOST_SAMPLES) list.lastElementChild.remove();
}

function showLog(lines) {
  const log = body("log", "Log", "pre", "log");
  const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  for (const line of lines) log.append(element("span", "", line.seconds.toFixed(1).padStart(8) + " s  " + line.text + "\n"));
  while (log.children.length > MOST_LINES) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

function follow() {
  const source = new EventSource(document.body.dataset.events);
  let state = "";
  const on = (name, show) => source.addEventListener(name, (event) => show(JSON.parse(event.data)));
  on("hello", () => {
    for (const id of ["stream", "log"]) place(id)?.replaceChildren();
    showStatus(state, false);
  });
  on("section", replaceSection);
  on("state", (news) => {
    state = news.text;
    showStatus(state, false);
  });
  on("services", showServices);
  on("samples", showSamples);
  on("log", showLog);
  source.onerror = () => {
    showStatus(state, true);
    // A browser tries again by itself, but for an answer that is no stream.
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, RECONNECT_MS);
  };
}

follow();
