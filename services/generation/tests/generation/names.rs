//! Engines behind a name: they come and go with its addresses, and no sample is lost, doubled or drawn from other
//! weights by it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_generation::{BindOptions, GenerationSettings, bind_with};
use evenkeel_proto::v1::{EngineHealth, EngineUpdateOutcome, FinishReason};
use evenkeel_rpc::BoxFuture;
use evenkeel_rpc::dispatch::Resolve;

use crate::support::{
    FakeEngine, Reply, Service, bounded, content, item, items, label, settings_of, until, weights, with_tokens,
};

/// A name server with configured answers.
#[derive(Default)]
struct Names(Mutex<Vec<SocketAddr>>);

impl Names {
    fn set(&self, engines: &[&FakeEngine]) {
        *self.0.lock().unwrap() = engines.iter().map(|engine| engine.address).collect();
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, host: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        assert_eq!(host, "vllm");
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap().clone())))
    }
}

fn settings() -> GenerationSettings {
    let mut settings = settings_of(vec!["dns://vllm:8000".into()]);
    settings.engine.resolve_interval = Duration::from_millis(20);
    (settings.max_in_flight, settings.max_attempts) = (32, 50);
    settings
}

fn options(names: &Arc<Names>) -> BindOptions {
    BindOptions { resolver: Arc::clone(names) as Arc<dyn Resolve>, ..BindOptions::default() }
}

async fn service(names: &Arc<Names>) -> Service {
    Service::of(bind_with(settings(), options(names)).await.unwrap()).await
}

async fn until_engines(service: &Service, engines: &[&FakeEngine]) {
    let mut wanted: Vec<String> = engines.iter().map(|engine| engine.name()).collect();
    wanted.sort();
    loop {
        let status = service.status().await;
        let usable = |health| matches!(health, EngineHealth::Healthy | EngineHealth::Suspect);
        let mut names: Vec<String> =
            status.engines.iter().filter(|engine| usable(engine.health())).map(|engine| engine.name.clone()).collect();
        names.sort();
        let others = if wanted.is_empty() { 0 } else { status.engines.len() - names.len() };
        if names == wanted && others == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_new_address_is_a_new_engine_with_the_weights_of_the_others() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let names = Arc::new(Names::default());
        names.set(&[&one]);
        let service = service(&names).await;
        until_engines(&service, &[&one]).await;
        service.update(weights(3)).await.unwrap();
        names.set(&[&one, &two]);
        until_engines(&service, &[&one, &two]).await;
        assert_eq!(two.label(), label(3), "it was updated to what the others have");
        let rollouts = service.draw_all(items(64)).await;
        for engine in [&one, &two] {
            assert!(rollouts.values().any(|rollout| rollout.engine == engine.name()));
        }
        assert!(rollouts.values().all(|rollout| rollout.segments[0].policy_version == Some(3)));
    })
    .await;
}

#[tokio::test]
async fn an_engine_whose_address_disappears_finishes_what_it_has_and_gets_nothing_more() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        one.script(|_| Reply::Tick(Duration::from_millis(20)));
        let names = Arc::new(Names::default());
        names.set(&[&one]);
        let service = service(&names).await;
        let mut stream = service.stream().await;
        stream.send(with_tokens(item("long", 1), 40)).await;
        until(|| one.live() == 1).await;
        names.set(&[&two]);
        loop {
            let status = service.status().await;
            let health = |name: String| status.engines.iter().find(|e| e.name == name).map(|e| e.health());
            if health(one.name()) == Some(EngineHealth::Draining) && health(two.name()).is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let others = service.draw_all(items(32)).await;
        assert!(others.values().all(|rollout| rollout.engine == two.name()));
        let long = stream.next().await;
        assert_eq!((long.finish_reason(), long.attempts, &long.engine), (FinishReason::Length, 1, &one.name()));
        until_engines(&service, &[&two]).await;
        assert_eq!(one.asked().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_engine_whose_address_comes_back_has_to_have_the_weights_first() {
    bounded(async {
        let one = FakeEngine::start();
        let two = FakeEngine::start();
        let names = Arc::new(Names::default());
        names.set(&[&one, &two]);
        let service = service(&names).await;
        until_engines(&service, &[&one, &two]).await;
        names.set(&[&two]);
        until_engines(&service, &[&two]).await;
        let updated = service.update(weights(1)).await.unwrap();
        assert_eq!(updated.engines.len(), 1, "{updated:?}");
        assert_eq!(updated.engines[0].outcome(), EngineUpdateOutcome::Updated);
        assert_eq!(one.label(), "default");
        names.set(&[&one, &two]);
        until_engines(&service, &[&one, &two]).await;
        assert_eq!(one.label(), label(1));
    })
    .await;
}

#[tokio::test]
async fn samples_are_answered_once_while_addresses_change_and_engines_die_under_them() {
    bounded(async {
        let mut engines: Vec<FakeEngine> = (0..4).map(|_| FakeEngine::start()).collect();
        let alone = FakeEngine::start();
        let only = Arc::new(Names::default());
        only.set(&[&alone]);
        let expected = service(&only).await.draw_all(items(1024)).await;
        engines.iter().for_each(|engine| engine.script(|_| Reply::Tick(Duration::from_millis(5))));
        let names = Arc::new(Names::default());
        names.set(&[&engines[0]]);
        let service = service(&names).await;
        let drawing = tokio::spawn(async move { service.draw_all(items(1024)).await });
        let mut round = 0;
        while !drawing.is_finished() {
            round += 1;
            let set: Vec<&FakeEngine> = [round % 4, (round + 1) % 4].map(|index| &engines[index]).to_vec();
            names.set(&set);
            tokio::time::sleep(Duration::from_millis(60)).await;
            // What the name has no more dies soon, as pods do.
            let gone = (round + 3) % 4;
            engines[gone].restart();
        }
        assert!(round > 2, "the addresses changed under the samples");
        for (id, rollout) in drawing.await.unwrap() {
            assert_eq!(rollout.finish_reason(), FinishReason::Length, "{id}: {:?}", rollout.failure);
            assert_eq!(content(&rollout), content(&expected[&id]));
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_without_an_address_is_waited_for_and_said() {
    bounded(async {
        let engine = FakeEngine::start();
        let names = Arc::new(Names::default());
        let mut short = settings();
        short.engine.startup_timeout = Duration::from_millis(100);
        let refused = bind_with(short, options(&names)).await.err().unwrap().to_string();
        assert!(refused.contains("dns://vllm:8000: no address found"), "{refused}");
        let late = Arc::clone(&names);
        let address = engine.address;
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            *late.0.lock().unwrap() = vec![address];
        });
        until_engines(&service(&names).await, &[&engine]).await;
    })
    .await;
}

#[tokio::test]
async fn samples_wait_while_a_name_moves_to_an_engine_that_is_not_up_yet() {
    bounded(async {
        let one = FakeEngine::start();
        let mut two = FakeEngine::start();
        let names = Arc::new(Names::default());
        names.set(&[&one]);
        let service = service(&names).await;
        until_engines(&service, &[&one]).await;
        two.kill();
        names.set(&[&two]);
        until_engines(&service, &[]).await;
        let mut stream = service.stream().await;
        stream.send(item("early", 1)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        two.restart();
        let rollout = stream.next().await;
        assert_eq!((rollout.failure, rollout.engine), (None, two.name()));
    })
    .await;
}
