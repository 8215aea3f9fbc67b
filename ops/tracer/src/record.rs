//! The record, followed as it grows: it goes to the tracer.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use admin::Administrator;
use admin::record::{Followed, follow_in_parts};
use telemetry::Telemetry;

use crate::clock::now;
use crate::tracer::Tracer;

/// Delay before the record is followed again after an error.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the record for good, and reads it from its beginning where the tracer asks for that.
pub(crate) async fn follow<T>(
    administrator: Rc<Administrator>,
    tracer: Rc<RefCell<Tracer<T>>>,
    telemetry: Telemetry,
) {
    let mut reason = String::new();
    loop {
        tracer.borrow_mut().begins(now());
        let followed = follow_in_parts(&administrator, |told| {
            let mut tracer = tracer.borrow_mut();
            match told {
                Followed::Ended { position, .. } => {
                    tracer.position(&position, telemetry.meters().tracer())
                }
                Followed::Whole => tracer.is_read(now()),
                Followed::Idle(devices) => tracer.tell_idle(devices, now()),
                Followed::Standing(_) | Followed::Failed(_) => {}
            }
            Ok(())
        });
        let again = async {
            while !tracer.borrow().wants_again(now()) {
                tokio::time::sleep(AGAIN).await;
            }
        };
        let failed = tokio::select! {
            failed = followed => failed,
            () = again => continue,
        };
        if let Err(error) = failed {
            // Said once, until it changes: a cluster that is starting has no record yet.
            let why = format!("{error:#}");
            if why != reason {
                tracing::warn!(why, "the record cannot be followed");
                reason = why;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
