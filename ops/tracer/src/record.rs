//! The record, followed as it grows: its positions go to the join.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use admin::Administrator;
use admin::record::{Followed, follow_in_parts};

use crate::clock::now;
use crate::join::Join;

/// Delay before the record is followed again after an error.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows the record for good, and reads it from its beginning where the join asks for that.
pub(crate) async fn follow<T>(administrator: Rc<Administrator>, join: Rc<RefCell<Join<T>>>) {
    let mut reason = String::new();
    loop {
        join.borrow_mut().begins(now());
        let followed = follow_in_parts(&administrator, |told| {
            let mut join = join.borrow_mut();
            match told {
                Followed::Ended { position, .. } => join.position(&position),
                Followed::Whole => join.is_read(now()),
                Followed::Standing(_) => {}
            }
            Ok(())
        });
        let again = async {
            while !join.borrow().wants_again(now()) {
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
