//! Clocks: both show the time that the program itself has used, from a fixed start. Sleeping takes no real time, but is
//! charged.

use wasmtime::component::{ComponentType, Lift, Lower, Resource};
use wasmtime::{AsContext, Result, StoreContextMut};

use super::{GuestState, Instance};

/// A handle on a point in time to wait for. The handle's number is its index among the guest's alarms plus one.
pub(super) struct Alarm;

impl Alarm {
    /// The number of an alarm that is always ready.
    pub(super) const READY: u32 = 0;
}

/// The time at which every program starts: 2025-01-01T00:00:00Z, in seconds since 1970.
const START_S: u64 = 1_735_689_600;
const SECOND_NS: u64 = 1_000_000_000;
/// Resolution that the clocks report, in nanoseconds.
const RESOLUTION_NS: u64 = 100_000;
/// Alarms that one program may set.
const MAX_ALARMS: usize = 1 << 20;

/// WASI's `datetime` record.
#[derive(ComponentType, Lift, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

pub(super) fn define(instance: &mut Instance<'_>, interface: &str, name: &str) -> Result<bool> {
    match (interface, name) {
        ("wasi:clocks/monotonic-clock", "now") => instance.func_wrap(name, |mut store, ()| Ok((now(&mut store),)))?,
        ("wasi:clocks/monotonic-clock", "resolution") => instance.func_wrap(name, |_, ()| Ok((RESOLUTION_NS,)))?,
        ("wasi:clocks/monotonic-clock", "subscribe-instant") => {
            instance.func_wrap(name, |store, (at,): (u64,)| alarm(store, at))?
        }
        ("wasi:clocks/monotonic-clock", "subscribe-duration") => {
            instance.func_wrap(name, |mut store, (after,): (u64,)| {
                let at = now(&mut store).saturating_add(after);
                alarm(store, at)
            })?;
        }
        ("wasi:clocks/wall-clock", "now") => {
            instance.func_wrap(name, |mut store, ()| {
                let now = now(&mut store);
                let nanoseconds = u32::try_from(now % SECOND_NS).unwrap_or(0);
                Ok((Datetime { seconds: START_S + now / SECOND_NS, nanoseconds },))
            })?;
        }
        ("wasi:clocks/wall-clock", "resolution") => {
            instance.func_wrap(name, |_, ()| Ok((Datetime { seconds: 0, nanoseconds: 100_000 },)))?;
        }
        ("wasi:io/poll", "poll") => instance.func_wrap(name, poll)?,
        ("wasi:io/poll", "[method]pollable.block") => {
            instance.func_wrap(name, |store, (alarm,): (Resource<Alarm>,)| poll(store, (vec![alarm],)).map(|_| ()))?;
        }
        ("wasi:io/poll", "[method]pollable.ready") => {
            instance.func_wrap(name, |mut store: StoreContextMut<'_, GuestState>, (alarm,): (Resource<Alarm>,)| {
                Ok((rings_at(&store, &alarm) <= now(&mut store),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn fuel_left(store: &StoreContextMut<'_, GuestState>) -> u64 {
    store.as_context().get_fuel().unwrap_or(0)
}

fn now(store: &mut StoreContextMut<'_, GuestState>) -> u64 {
    store.data_mut().count_host_call();
    store.data().meter.guest_clock_ns(|| fuel_left(store))
}

fn alarm(mut store: StoreContextMut<'_, GuestState>, at: u64) -> Result<(Resource<Alarm>,)> {
    store.data_mut().count_host_call();
    store.data_mut().memory.charge_host(size_of::<u64>() as u64)?;
    let alarms = &mut store.data_mut().alarms;
    wasmtime::ensure!(alarms.len() < MAX_ALARMS, "too many alarms");
    alarms.push(at);
    Ok((Resource::new_own(u32::try_from(alarms.len())?),))
}

fn rings_at(store: &StoreContextMut<'_, GuestState>, alarm: &Resource<Alarm>) -> u64 {
    match alarm.rep() {
        Alarm::READY => 0,
        number => store.data().alarms.get(number as usize - 1).copied().unwrap_or(0),
    }
}

/// Waits for the earliest of the alarms by advancing the guest's clock to it.
fn poll(mut store: StoreContextMut<'_, GuestState>, (alarms,): (Vec<Resource<Alarm>>,)) -> Result<(Vec<u32>,)> {
    let moments: Vec<u64> = alarms.iter().map(|alarm| rings_at(&store, alarm)).collect();
    let first = moments.iter().copied().min().unwrap_or(0);
    let left = fuel_left(&store);
    store.data_mut().count_host_call();
    store.data_mut().meter.sleep_until(first, || left)?;
    let rung = (0u32..).zip(&moments).filter(|(_, moment)| **moment <= first).map(|(index, _)| index);
    Ok((rung.collect(),))
}
