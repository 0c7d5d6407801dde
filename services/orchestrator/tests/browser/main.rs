//! Live page and report in a real browser: `cargo test --release -p evenkeel-orchestrator --test browser`.
//!
//! Headless Chromium (Debian: `apt-get install chromium`) is driven over the DevTools protocol. Without it the test is
//! listed as ignored.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod chromium;
mod episode;
#[path = "../suite/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the other tests")]
mod support;
mod weight;

use std::sync::atomic::Ordering;
use std::time::Duration;

use chromium::Chromium;
use evenkeel_orchestrator::{PageServer, PageSettings, StopWhen};
use libtest_mimic::{Arguments, Failed, Trial};
use support::{Cluster, bounded, recipe, temp};

/// A completion that would take over a page that shows it as markup.
const HOSTILE: &str = "<script>taken=1</script><img src=x onerror=taken=1>";

fn main() {
    let arguments = Arguments::from_args();
    let can_run = Chromium::is_installed();
    let tests = [
        Trial::test("a_run_is_followed_in_a_browser_and_answers_stay_text", || in_runtime(follow_a_run())),
        Trial::test("an_episode_is_followed_turn_by_turn", || in_runtime(episode::follow())),
        Trial::test("reports_of_many_steps_open_at_once", || in_runtime(weight::open_heavy_pages())),
    ];
    let kind = if can_run { "" } else { "needs chromium" };
    let tests = tests.map(|test| test.with_ignored_flag(!can_run).with_kind(kind));
    libtest_mimic::run(&arguments, tests.into()).exit();
}

fn in_runtime(test: impl Future<Output = ()>) -> Result<(), Failed> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(bounded(test));
    Ok(())
}

async fn follow_a_run() {
    let (dir, path) = temp();
    let mut recipe = recipe();
    recipe.run.steps = 2000;
    let cluster = Cluster::start().await;
    let hostile = |item: &evenkeel_proto::v1::GenerateItem| {
        // Some others, so that there are curves.
        let odd = item.sample_id.bytes().last().is_some_and(|last| last % 2 == 1);
        odd.then(|| HOSTILE.to_owned())
    };
    *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(hostile));
    cluster.generation.state.max_delay_ms.store(40, Ordering::Relaxed);
    let page = PageServer::bind("127.0.0.1:0", dir.path(), &PageSettings::default()).await.unwrap();
    let run = cluster.begin(&path, &recipe);
    page.attach(run.live());
    let url = page.url_of(&run.live());

    let mut browser = Chromium::start();
    browser.open(&url);
    browser.until("document.querySelectorAll('#stream .stream li').length > 2");
    browser.until("document.querySelectorAll('#results figure svg path').length > 0");
    browser.until("document.querySelectorAll('#services li').length >= 3");
    browser.until("document.querySelector('#log pre').textContent.includes('step 2')");
    browser.until("[...document.querySelectorAll('#stream pre')].some(pre => pre.textContent.includes('<script>'))");
    browser.until("document.querySelector('#live').textContent.includes('training')");
    assert_eq!(browser.value("document.scripts.length + ' ' + typeof taken"), "1 undefined");
    assert_eq!(browser.value("document.querySelectorAll('#stream img, #stream script').length"), 0);
    assert_eq!(browser.value("document.querySelectorAll('[style], [onerror], [onclick]').length"), 0);

    // What the reader has opened stays open while its section changes.
    browser.value("document.querySelector('#settings details').open = true");
    let steps = "document.querySelector('#overview .tiles').textContent";
    let before = browser.value(steps);
    browser.until(&format!("{steps} !== {before}"));
    assert_eq!(browser.value("document.querySelector('#settings details').open"), true);

    // The server goes away and comes back at the same address.
    let address = page.address().to_string();
    drop(page);
    browser.until("document.querySelector('#live').textContent.includes('connection lost')");
    let page = loop {
        match PageServer::bind(&address, dir.path(), &PageSettings::default()).await {
            Ok(page) => break page,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    page.attach(run.live());
    browser.until("document.querySelector('#live').textContent.includes('live')");

    // The list leads to the run.
    browser.open(&page.url());
    browser.until("document.querySelectorAll('#curves figure').length > 2");
    browser.until("document.querySelector('#runs a').getAttribute('href') === '/run/run'");

    // The frozen report is complete without a server.
    run.stop(StopWhen::Now);
    run.join().await.unwrap();
    browser.open(&format!("file://{}", path.join("report.html").display()));
    browser.until("document.querySelectorAll('figure').length > 5 && document.scripts.length === 0");
    assert_eq!(browser.value("typeof taken"), "undefined");
    assert_eq!(browser.complaints(), [""; 0], "of the browser, such as a violation of the policy");
}
