//! Work that a guest waits for, done on its task's stack. A guest's own stack keeps every page that was ever touched, and
//! thousands of guests may wait at a time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The place where a guest leaves its work. One piece at a time: a guest that waits can ask for no more.
#[derive(Clone, Default)]
pub(super) struct Aside(Arc<Mutex<Option<Work>>>);

impl Aside {
    /// Hands over work and waits for its result. To be awaited within [`beside`](Self::beside). The work is built there too,
    /// so that not even its size is felt here.
    pub(super) async fn run<W, T>(&self, work: impl FnOnce() -> W + Send + 'static) -> T
    where
        W: Future<Output = T> + Send,
        T: Send + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let done = result.clone();
        *self.slot() = Some(Box::pin(async move {
            let value = Box::pin(work()).await;
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }));
        // Nobody has to wake us: the guest is polled as soon as its work is done.
        poll_fn(|_| match result.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        })
        .await
    }

    /// Runs a guest together with what it leaves here. Dropped half-way, it drops the work too.
    pub(super) async fn beside<T>(&self, guest: impl Future<Output = T>) -> T {
        let _end = End(self);
        let mut guest = pin!(guest);
        poll_fn(|cx| {
            loop {
                let work = self.slot().take();
                if let Some(mut work) = work
                    && work.as_mut().poll(cx).is_pending()
                {
                    *self.slot() = Some(work);
                    return Poll::Pending;
                }
                if let Poll::Ready(value) = guest.as_mut().poll(cx) {
                    return Poll::Ready(value);
                }
                if self.slot().is_none() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    fn slot(&self) -> MutexGuard<'_, Option<Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct End<'a>(&'a Aside);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let work = self.0.slot().take();
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_guest_gets_the_results_of_its_work_in_order() {
        let aside = Aside::default();
        let heard = aside.beside(async {
            let first = aside.run(async || 1).await;
            let second = aside.run(async || {
                yield_now().await;
                2
            });
            (first, second.await)
        });
        assert_eq!(heard.await, (1, 2));
    }

    #[tokio::test]
    async fn work_ends_with_the_guest_that_waits_for_it() {
        let aside = Aside::default();
        let (alive, mut gone) = oneshot::channel::<()>();
        let waiting = aside.beside(aside.run(async move || {
            let _alive = alive;
            std::future::pending::<()>().await;
        }));
        assert!(timeout(Duration::from_millis(5), waiting).await.is_err());
        assert!(matches!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed)));
    }
}
