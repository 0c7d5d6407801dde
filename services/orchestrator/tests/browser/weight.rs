//! How long a browser takes to open what a long run, and many runs, leave behind.

use std::fmt::Write;
use std::path::Path;

use evenkeel_charts::{Chart, Figure, Html, Page, Point, Section, Series, Style, figures};
use evenkeel_run_report::render_report;

use crate::chromium::Chromium;
use crate::support::{Cluster, recipe, temp};

const STEPS: u32 = 500;
const RUNS: u32 = 12;
/// Bytes of a page.
const MAX_BYTES: usize = 5_000_000;
/// Milliseconds of CPU until a page is loaded and laid out. The goal is a second until it is open; the time that passes
/// depends on what else the machine does, this does not.
const MAX_CPU: f64 = 1_000.0;
const RULES: [&str; 7] = ["token", "batch-token", "sequence", "sequence-sum", "balanced", "balanced-count", "vl-norm"];

#[expect(clippy::print_stdout, reason = "the times are the result")]
pub(crate) async fn open_heavy_pages() {
    let (dir, path) = temp();
    Cluster::start().await.run(&path, &recipe()).await.1.unwrap();
    std::fs::write(path.join("metrics.jsonl"), metrics()).unwrap();
    let pages = [("report.html", render_report(&path, None).unwrap()), ("runs.html", many_runs().to_document())];
    for (name, html) in pages {
        assert!(html.len() < MAX_BYTES, "{name} has {} bytes", html.len());
        let (took, cpu) = open(&dir.path().join(name), &html);
        println!("{name}: {} bytes, open after {took:.0} ms, {cpu:.0} ms of CPU", html.len());
        assert!(cpu < MAX_CPU, "{name} took {cpu} ms of CPU");
    }
}

/// Milliseconds from the beginning of the navigation until everything is laid out, and those of CPU in the page's
/// process.
fn open(path: &Path, html: &str) -> (f64, f64) {
    std::fs::write(path, html).unwrap();
    // One for each page: its process has done nothing else.
    let mut browser = Chromium::start();
    browser.open(&format!("file://{}", path.display()));
    browser.until("document.readyState === 'complete' && document.querySelectorAll('figure').length > 10");
    let layout = "(() => { const began = performance.now(); document.body.getBoundingClientRect(); \
                  return performance.getEntriesByType('navigation')[0].loadEventEnd + performance.now() - began; })()";
    let took = browser.value(layout).as_f64().unwrap();
    (took, browser.cpu_ms())
}

/// A number that compresses as badly as a measured one.
fn noise(step: u32, salt: u32) -> f64 {
    f64::from((step * 7919 + salt * 104_729) % 100_003) / 100_003.0
}

/// The lines of a run with everything that a learner reports.
fn metrics() -> String {
    let mut names: Vec<String> = [
        "critic/score/mean",
        "response_length/mean",
        "response_length/correct/mean",
        "response_length/incorrect/mean",
        "response_length/clip_ratio",
        "actor/entropy",
        "actor/grad_norm",
        "actor/pg_loss",
        "actor/pg_clipfrac",
        "actor/ppo_kl",
        "actor/lr",
        "aggregation/length_cv",
        "aggregation/length_gap",
        "aggregation/pull_positive",
        "aggregation/pull_negative",
        "rollout/groups_all_correct",
        "rollout/groups_all_incorrect",
        "timing_s/gen",
        "timing_s/reward",
        "timing_s/update_actor",
        "timing_s/step",
    ]
    .map(str::to_owned)
    .into();
    for (index, rule) in RULES.iter().enumerate() {
        let parts = ["pull_positive", "pull_negative", "bias"].map(str::to_owned).into_iter();
        let quarters = (1..5).flat_map(|quarter| [format!("share_q{quarter}"), format!("weight_q{quarter}")]);
        names.extend(parts.chain(quarters).map(|part| format!("aggregation/{rule}/{part}")));
        names.extend([format!("probe/{rule}/grad_norm"), format!("probe/{rule}/learning_rate")]);
        names.extend(RULES[index + 1..].iter().map(|other| format!("probe/{rule}/cosine/{other}")));
    }
    let mut text = String::new();
    for step in 0..STEPS {
        let _ = write!(text, "{{\"kind\":\"train\",\"step\":{0},\"policy_version\":{0}", step + 1);
        for (salt, name) in (0..).zip(&names) {
            let _ = write!(text, ",\"{name}\":{}", noise(step, salt) + 0.1);
        }
        text.push_str("}\n");
    }
    text
}

/// As many charts as a comparison has, each with a line for every run.
fn many_runs() -> Page {
    let charts = (0..16).map(|chart| {
        let runs = (0..RUNS).map(|run| {
            let points = (0..STEPS).map(|step| Point::new(f64::from(step + 1), noise(step, run + chart * RUNS)));
            Series::new(format!("run {run}"), Style::Averaged, points)
        });
        Figure::from(runs.fold(Chart::new("Reward", "mean raw reward"), Chart::with))
    });
    Page {
        title: "runs".into(),
        kicker: Html::text("twelve runs"),
        sections: vec![Section::new("curves", "Curves", figures(charts))],
        footer: Html::new(),
    }
}
