//! The training requests of a model in the order of their numbers, whatever order they arrive in; each number once.

use std::collections::BTreeMap;

use axum::http::StatusCode;

use crate::error::ApiError;

/// How far ahead of the next number a request may be.
const AHEAD: u64 = 100_000;
/// Numbers that are remembered for clients that repeat a request.
const REMEMBERED: usize = 10_000;

/// A queue of jobs.
pub(crate) struct InOrder<J> {
    next: u64,
    waiting: BTreeMap<u64, J>,
    /// Digest of the content, and the id of the request, by number.
    seen: BTreeMap<u64, (String, String)>,
}

impl<J> InOrder<J> {
    /// The first number is one after those that are done.
    pub(crate) fn after(done: u64) -> Self {
        Self { next: done + 1, waiting: BTreeMap::new(), seen: BTreeMap::new() }
    }

    /// Adds a request, unless its number was taken by the same one before. Returns the id of the request with that
    /// number. `job` is told whether it is the next: there has to be room for that one, since everything else waits for
    /// it.
    ///
    /// # Errors
    /// The number was taken by another request, is too far ahead, or belongs to one that is not remembered any more.
    pub(crate) fn add(
        &mut self,
        number: u64,
        digest: String,
        job: impl FnOnce(bool) -> Result<(String, J), ApiError>,
    ) -> Result<String, ApiError> {
        if let Some((taken, id)) = self.seen.get(&number) {
            return if *taken == digest {
                Ok(id.clone())
            } else {
                Err(ApiError::bad(format!("seq_id is {number}, which was taken by another request")))
            };
        }
        if number < self.next {
            let message = format!("seq_id is {number}, whose operation was done and whose result is no longer kept");
            return Err(ApiError::new(StatusCode::GONE, message));
        }
        if number > self.next + AHEAD {
            return Err(ApiError::bad(format!("seq_id is {number}, the next is {}", self.next)));
        }
        let (id, job) = job(number == self.next)?;
        self.seen.insert(number, (digest, id.clone()));
        if self.seen.len() > REMEMBERED {
            self.seen.pop_first();
        }
        self.waiting.insert(number, job);
        Ok(id)
    }

    /// The next job, if it is there.
    pub(crate) fn take(&mut self) -> Option<(u64, J)> {
        let job = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some((self.next - 1, job))
    }

    /// The number that has not arrived, where later ones wait for it.
    pub(crate) fn missing(&self) -> Option<u64> {
        let first = *self.waiting.first_key_value()?.0;
        (first != self.next).then_some(self.next)
    }

    /// Goes on without that number, which is refused from now on.
    pub(crate) fn skip(&mut self, missing: u64) {
        if self.missing() == Some(missing) {
            self.next += 1;
        }
    }

    /// The number of the last job that was taken.
    pub(crate) fn done(&self) -> u64 {
        self.next - 1
    }

    /// The number of the last job that was taken or waits.
    pub(crate) fn last(&self) -> u64 {
        self.waiting.last_key_value().map_or(self.done(), |(number, _)| *number)
    }

    /// Everything that waits, of a model that has ended.
    pub(crate) fn clear(&mut self) -> Vec<J> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(queue: &mut InOrder<u64>, number: u64, digest: &str) -> Result<String, StatusCode> {
        let job = |_| Ok((format!("request-{number}"), number));
        queue.add(number, digest.to_owned(), job).map_err(|error| error.status)
    }

    #[test]
    fn chunks_that_arrive_out_of_order_are_taken_in_order() {
        let mut queue = InOrder::after(5);
        for number in [7, 8, 6] {
            assert_eq!(add(&mut queue, number, "a").unwrap(), format!("request-{number}"));
        }
        assert_eq!(std::iter::from_fn(|| queue.take()).collect::<Vec<_>>(), [(6, 6), (7, 7), (8, 8)]);
    }

    #[test]
    fn nothing_is_taken_before_what_precedes_it() {
        let mut queue = InOrder::after(0);
        add(&mut queue, 2, "a").unwrap();
        assert_eq!(queue.take(), None);
        add(&mut queue, 1, "a").unwrap();
        assert_eq!((queue.take(), queue.take()), (Some((1, 1)), Some((2, 2))));
    }

    #[test]
    fn a_number_that_never_arrives_can_be_given_up() {
        let mut queue = InOrder::after(0);
        assert_eq!(queue.missing(), None, "nothing waits for it");
        add(&mut queue, 2, "a").unwrap();
        assert_eq!(queue.missing(), Some(1));
        queue.skip(1);
        assert_eq!((queue.missing(), queue.take()), (None, Some((2, 2))));
        assert_eq!(add(&mut queue, 1, "a"), Err(StatusCode::GONE), "it comes too late");
        queue.skip(1);
        assert_eq!(queue.done(), 2, "it was given up already");
    }

    #[test]
    fn a_repeated_request_has_its_first_id_and_another_with_its_number_is_refused() {
        let mut queue = InOrder::after(0);
        add(&mut queue, 1, "a").unwrap();
        queue.take();
        assert_eq!(add(&mut queue, 1, "a"), Ok("request-1".to_owned()));
        assert_eq!(queue.take(), None, "it counts once");
        assert_eq!(add(&mut queue, 1, "b"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(add(&mut queue, 200_000, "a"), Err(StatusCode::BAD_REQUEST));
        let mut restarted = InOrder::after(4);
        assert_eq!(add(&mut restarted, 4, "a"), Err(StatusCode::GONE));
    }
}
