//! An episode with tools on the live page and in the report.

use std::sync::atomic::Ordering;

use evenkeel_orchestrator::{PageServer, PageSettings, StopWhen};

use crate::chromium::Chromium;
use crate::support::calculator::{Table, settings};

pub(crate) async fn follow() {
    let table = Table::start(64).await;
    let mut settings = settings();
    settings.run.steps = 2000;
    table.cluster.generation.state.max_delay_ms.store(40, Ordering::Relaxed);
    let page = PageServer::bind("127.0.0.1:0", table.folder.path(), &PageSettings::default()).await.unwrap();
    let run = table.begin("run", &settings).unwrap();
    page.attach(run.live());

    let mut browser = Chromium::start();
    browser.open(&page.url_of(&run.live()));
    let said = "[...document.querySelectorAll('#stream .stream li')].some(item => \
        item.querySelectorAll('pre.sampled').length === 2";
    browser.until(&format!("{said} && item.querySelector('pre.added').textContent.match(/^[0-9]+$/))"));
    browser.until(&format!("{said} && item.querySelector('pre.sampled').textContent.includes('<tool_call>'))"));
    browser.until("document.querySelector('#stream').textContent.includes('added, not trained on')");
    browser.until("document.querySelector('#stream').textContent.includes('Reward: correctness')");
    browser.until("document.querySelectorAll('.group pre.added').length > 0");

    run.stop(StopWhen::Now);
    run.join().await.unwrap();
    browser.open(&format!("file://{}", table.path("run").join("report.html").display()));
    browser.until("document.querySelectorAll('.group pre.sampled').length > 1");
    browser.until("document.querySelector('.answers').textContent.includes('added, not trained on')");
    assert_eq!(browser.complaints(), [""; 0], "of the browser, such as a violation of the policy");
}
