//! The live page over real connections.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_orchestrator::{PageServer, PageSettings};
use evenkeel_run_report::RunUpdate;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Cluster, bounded, finish, recipe, temp};

/// A completion that would take over a page that shows it as markup.
const HOSTILE: &str = "<script>document.title='x'</script>";

/// Sends a request. Returns head and body of the answer.
async fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")).await
}

/// What a stream of events sends until it has all of these.
async fn follow(address: SocketAddr, path: &str, until: &[&str]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut buffer = vec![0; 1 << 16];
    while !until.iter().all(|words| text.contains(words)) {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

async fn page_of(folder: &Path) -> PageServer {
    PageServer::bind("127.0.0.1:0", folder, &PageSettings::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_shown_while_it_happens_and_its_answers_are_text() {
    bounded(async {
        let (dir, path) = temp();
        let mut recipe = recipe();
        recipe.run.steps = 60;
        let cluster = Cluster::start().await;
        *cluster.generation.state.answers.lock().unwrap() = Some(Box::new(|_| Some(HOSTILE.to_owned())));
        cluster.generation.state.max_delay_ms.store(40, Ordering::Relaxed);
        let page = page_of(dir.path()).await;
        let run = cluster.begin(&path, &recipe);
        page.attach(run.live());
        assert_eq!(page.url_of(&run.live()), format!("http://{}/run/run", page.address()));
        let running = tokio::spawn(finish(run));

        let wanted =
            ["event: hello", "event: state", "event: services", "event: samples", "event: log", "\"id\":\"results\""];
        let stream = follow(page.address(), "/run/run/events", &wanted).await;
        assert!(stream.to_lowercase().contains("content-type: text/event-stream"), "{stream}");
        let data = |name: &str| {
            let (_, rest) = stream.split_once(&format!("event: {name}\ndata: ")).unwrap();
            serde_json::from_str::<serde_json::Value>(rest.lines().next().unwrap()).unwrap()
        };
        let samples = data("samples");
        assert_eq!((samples[0]["text"].as_str(), samples[0]["purpose"].as_str()), (Some(HOSTILE), Some("evaluation")));
        assert!(samples[0]["verdict"].is_string() && samples[0]["tokens"].as_u64().unwrap() > 0, "{samples}");
        let names: Vec<_> = data("services").as_array().unwrap().iter().map(|it| it["name"].to_string()).collect();
        for service in ["generation", "reward", "learner"] {
            assert!(names.iter().any(|name| name.contains(service)), "{names:?}");
        }
        for line in stream.lines().filter(|line| line.starts_with("data: {\"id\"")) {
            assert!(!line.contains("<script"), "{line}");
        }

        let (head, body) = get(page.address(), "/run/run").await;
        let head = head.to_lowercase();
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff") && head.contains("cache-control: no-store"));
        assert_eq!(body.matches("<script").count(), 1, "only the one of the page");
        running.await.unwrap().1.unwrap();
        // The frozen report has the same sections and the same answers as text.
        let report = std::fs::read_to_string(path.join("report.html")).unwrap();
        assert!(!report.contains("<script") && report.contains("&lt;script&gt;"), "answers are text");
        for section in ["results", "aggregation", "dropped", "time", "samples", "settings"] {
            let place = format!("<section id=\"{section}\">");
            assert!(report.contains(&place) && body.contains(&place), "{section}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_is_listed_and_a_terminal_gets_the_lines_that_it_lacks() {
    bounded(async {
        let (dir, path) = temp();
        Cluster::start().await.run(&path, &recipe()).await.1.unwrap();
        std::fs::create_dir(dir.path().join("the<sis")).unwrap();
        let page = page_of(dir.path()).await;
        let (_, list) = get(page.address(), "/").await;
        assert!(list.contains("href=\"/run/run\"") && list.contains("6 of 6") && list.contains("completed"), "{list}");
        assert!(list.contains("the&lt;sis: holds no run") && !list.contains("the<sis"), "{list}");
        assert!(list.contains("aria-label=\"Reward\""), "the curves of the newest are drawn");
        let stream = follow(page.address(), "/events?run=run", &["event: section", "\"id\":\"curves\""]).await;
        assert!(stream.contains("\"id\":\"runs\""));

        let update = |path: &'static str| async {
            let (head, body) = get(page.address(), path).await;
            assert!(head.starts_with("HTTP/1.0 200"), "{head}");
            serde_json::from_str::<RunUpdate>(&body).unwrap()
        };
        let all = update("/run/run/lines").await;
        assert_eq!(
            (all.state.label(), all.steps.len(), all.evaluations.len(), all.total_steps),
            ("completed", 6, 2, 6)
        );
        let rest = update("/run/run/lines?steps=4&evaluations=2").await;
        assert_eq!((rest.steps.len(), rest.evaluations.len(), rest.next), (2, 0, all.next));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_have_no_business_here_are_refused() {
    bounded(async {
        let (dir, path) = temp();
        Cluster::start().await.run(&path, &recipe()).await.1.unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        let page = page_of(&dir.path().join("inner")).await;
        let address = page.address();
        for path in
            ["/run/none", "/run/..%2Frun", "/run/..", "/run/.", "/run/%2e%2e%2frun/lines", "/run/none/events", "/x"]
        {
            let (head, body) = get(address, path).await;
            assert!(head.starts_with("HTTP/1.0 404"), "{path}: {head} {body}");
        }
        let posted = ask(address, &format!("POST / HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")).await;
        assert!(posted.0.starts_with("HTTP/1.0 405"), "{posted:?}");
        let long = format!("GET / HTTP/1.0\r\nHost: {address}\r\nX: {}\r\n\r\n", "a".repeat(200_000));
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The answer may come before all of it is sent.
        let _ = stream.write_all(long.as_bytes()).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    })
    .await;
}

#[tokio::test]
async fn a_web_site_that_points_its_name_here_reads_nothing_whatever_the_page_listens_on() {
    bounded(async {
        let (dir, _) = temp();
        for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
            let settings =
                PageSettings { insecure: true, hosts: vec!["runs.example".to_owned()], ..PageSettings::default() };
            let page = PageServer::bind(listen, dir.path(), &settings).await.unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], page.address().port()));
            let under = async |host: &str| ask(address, &format!("GET / HTTP/1.0\r\n{host}\r\n")).await;
            for own in
                [format!("Host: {address}\r\n"), "Host: localhost:1\r\n".into(), "Host: runs.example:80\r\n".into()]
            {
                let (head, body) = under(&own).await;
                assert!(head.starts_with("HTTP/1.0 200"), "{listen} as {own}: {head}\n{body}");
            }
            for foreign in ["Host: evil.example\r\n", "Host: runs.example.evil.example:80\r\n", ""] {
                let (head, body) = under(foreign).await;
                assert!(head.starts_with("HTTP/1.0 403") && body.contains("page.hosts"), "{foreign}: {head}\n{body}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_are_limited_in_number_and_make_room_when_they_leave() {
    bounded(async {
        let (dir, path) = temp();
        Cluster::start().await.run(&path, &recipe()).await.1.unwrap();
        let page = page_of(dir.path()).await;
        let mut readers = Vec::new();
        for _ in 0..32 {
            readers.push(TcpStream::connect(page.address()).await.unwrap());
        }
        // Connections are accepted one after the other.
        let (head, body) = get(page.address(), "/").await;
        assert!(head.starts_with("HTTP/1.1 503") && body == "too many readers of this page", "{head}\n{body}");
        drop(readers);
        loop {
            if get(page.address(), "/").await.0.starts_with("HTTP/1.0 200") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_with_the_name_of_the_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = PageServer::bind(&address, Path::new("."), &PageSettings::default()).await.unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("`page.listen`"), "{error}");
}

#[tokio::test]
async fn a_page_with_tokens_asks_for_one() {
    bounded(async {
        let (dir, _) = temp();
        let token = dir.path().join("token");
        std::fs::write(&token, "a-token-of-a-reader\n").unwrap();
        let settings = PageSettings { token_file: Some(token), ..PageSettings::default() };
        let page = PageServer::bind("127.0.0.1:0", dir.path(), &settings).await.unwrap();
        let with = async |header: &str| {
            let request = format!("GET / HTTP/1.0\r\nHost: {}\r\n{header}\r\n", page.address());
            ask(page.address(), &request).await.0
        };
        for wrong in ["", "Authorization: Bearer a-token-of-somebody\r\n", "Authorization: Basic eDp5\r\n"] {
            let head = with(wrong).await;
            assert!(head.contains(" 401 ") && head.contains("www-authenticate: Basic"), "{head}");
            assert!(head.contains("content-security-policy"), "{head}");
        }
        assert!(with("Authorization: Bearer a-token-of-a-reader\r\n").await.contains(" 200 "));
        // As a browser sends it: `anybody:a-token-of-a-reader`.
        let browser = "Authorization: Basic YW55Ym9keTphLXRva2VuLW9mLWEtcmVhZGVy\r\n";
        assert!(with(browser).await.contains(" 200 "));
    })
    .await;
}
