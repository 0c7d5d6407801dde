//! One engine as the service knows it, besides its place on the board.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_proto::v1::SleepLevel;
use tokio::sync::Notify;

use crate::engine::{Engine, EngineError, EngineInfo, Wake};
use crate::weights::Target;

/// One engine with what the service knows of it.
pub(crate) struct Member {
    /// Unique: host and port.
    pub(crate) name: String,
    pub(crate) engine: Box<dyn Engine>,
    /// What it is, since it was first probed.
    pub(crate) info: OnceLock<EngineInfo>,
    /// Held by whoever changes or examines it.
    pub(crate) control: tokio::sync::Mutex<Control>,
    /// It should be looked at now.
    pub(crate) kick: Notify,
    /// A sample left it.
    pub(super) idle: Notify,
    /// Up to which of its connections its weights were confirmed.
    pub(super) confirmed: AtomicU64,
    pub(super) confirming: tokio::sync::Mutex<()>,
    /// It sleeps, for whoever does not hold its control.
    asleep: AtomicBool,
}

/// What is remembered from one examination of an engine to the next.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// The weights that it was given and has not been lost with since: all there is to know of an engine that does not say.
    pub(crate) applied: Option<Arc<Target>>,
    /// Unanswered questions in a row.
    pub(crate) unanswered: u32,
    /// Attempts in a row to bring it back.
    pub(crate) attempts: u32,
    /// A change of its weights was begun and not finished: whatever it says, they may be half of each.
    pub(crate) tainted: bool,
    /// It was looked at before, so that what its probe found is no news.
    pub(crate) looked: bool,
    /// What it has to take back before it can sample, where it was put to sleep.
    pub(crate) asleep: Option<Wake>,
}

impl Control {
    /// Whether an engine that says this has these weights.
    pub(crate) fn has(&self, target: &Target, says: Option<&str>) -> bool {
        !self.tainted && (target.is(says) || (says.is_none() && self.applied.as_deref() == Some(target)))
    }
}

impl Member {
    /// Ends its sleep, where it sleeps.
    pub(crate) async fn wake(&self, control: &mut Control) -> Result<(), EngineError> {
        if let Some(what) = control.asleep {
            self.engine.wake(what).await?;
            control.asleep = None;
            self.asleep.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Puts it to sleep; it must have no sample.
    pub(crate) async fn sleep(&self, control: &mut Control, level: SleepLevel) -> Result<(), EngineError> {
        let before = (control.asleep, control.tainted);
        // Said before it is asked: whoever stops waiting does not know how far it came. It is woken before it is used in any case, and
        // whatever it says, its weights may be gone.
        control.asleep = Some(Wake::All);
        control.tainted |= level == SleepLevel::Discard;
        let slept = self.engine.sleep(level).await;
        if slept.as_ref().is_err_and(EngineError::is_missing_route) {
            (control.asleep, control.tainted) = before;
        }
        self.asleep.store(control.asleep.is_some(), Ordering::Release);
        slept
    }

    /// Whether it sleeps.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    pub(super) fn new(engine: Box<dyn Engine>) -> Self {
        let endpoint = engine.endpoint();
        let name = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).to_owned();
        Self {
            name,
            engine,
            info: OnceLock::new(),
            control: tokio::sync::Mutex::default(),
            kick: Notify::new(),
            idle: Notify::new(),
            confirmed: AtomicU64::new(0),
            confirming: tokio::sync::Mutex::default(),
            asleep: AtomicBool::new(false),
        }
    }
}
