//! A window of the order: from the cached positions if they cover it, else from the record.

use std::collections::BTreeMap;

use admin::Administrator;
use admin::record::{Followed, scan_explained};
use bus_schemas::Tenant;

use crate::feed::Newest;
use crate::position::{At, Position};
use crate::problem::Problem;

/// A filter of positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Only {
    /// Only this tenant.
    pub(crate) tenant: Option<Tenant>,
    /// Only this device.
    pub(crate) gpu: Option<u32>,
}

impl Only {
    /// True if the filter admits a position.
    pub(crate) fn has(&self, position: &Position) -> bool {
        let tenant = self.tenant.as_ref().map(Tenant::as_str);
        tenant.is_none_or(|tenant| tenant == position.tenant)
            && self.gpu.is_none_or(|gpu| gpu == position.gpu)
    }
}

/// A window of the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// After this position.
    pub(super) after: Option<At>,
    /// Before this position.
    pub(super) before: Option<At>,
    /// Maximum number of positions: the first ones after `after`, else the last ones.
    pub(super) limit: usize,
    /// The filter.
    pub(super) only: Only,
}

/// A window that is being filled.
struct Filled<'w> {
    window: &'w Window,
    rows: BTreeMap<At, Position>,
}

impl Filled<'_> {
    fn take(&mut self, at: At, position: impl FnOnce() -> Position) {
        let Window {
            after,
            before,
            limit,
            only,
        } = self.window;
        let inside = after.is_none_or(|after| at > after) && before.is_none_or(|it| at < it);
        if !inside {
            return;
        }
        // A position that would be dropped again is not built.
        let full = self.rows.len() >= *limit;
        let beyond = match after {
            Some(_) => self
                .rows
                .last_key_value()
                .is_some_and(|(last, _)| at > *last),
            None => self
                .rows
                .first_key_value()
                .is_some_and(|(first, _)| at < *first),
        };
        if full && beyond {
            return;
        }
        let position = position();
        if !only.has(&position) {
            return;
        }
        self.rows.insert(at, position);
        if self.rows.len() > *limit {
            match after {
                Some(_) => self.rows.pop_last(),
                None => self.rows.pop_first(),
            };
        }
    }

    fn finish(self) -> Vec<Position> {
        self.rows.into_values().collect()
    }
}

impl Window {
    fn empty(&self) -> Filled<'_> {
        Filled {
            window: self,
            rows: BTreeMap::new(),
        }
    }

    /// Positions of the window among the newest ones; `None` if older positions may belong to it.
    pub(super) fn of_newest(&self, newest: &Newest) -> Option<Vec<Position>> {
        let mut filled = self.empty();
        for told in &newest.rows {
            filled.take(told.at, || told.position.clone());
        }
        let complete = match (newest.dropped, self.after) {
            (None, _) => true,
            (Some(dropped), Some(after)) => after >= dropped,
            (Some(dropped), None) => {
                let first = filled.rows.first_key_value();
                filled.rows.len() >= self.limit && first.is_some_and(|(first, _)| *first > dropped)
            }
        };
        complete.then(|| filled.finish())
    }

    /// Positions of the window from the record, which is replayed for it.
    pub(super) async fn of_record(
        &self,
        administrator: &Administrator,
    ) -> Result<Vec<Position>, Problem> {
        let mut filled = self.empty();
        scan_explained(administrator, |told| {
            if let Followed::Ended { position, .. } = told {
                let at = At::from(&*position);
                filled.take(at, || Position::explained(&position, None));
            }
            Ok(())
        })
        .await?;
        Ok(filled.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::position::tests::replayed;
    use crate::position_event::PositionEvent;

    fn at(global: u64) -> At {
        At { epoch: 1, global }
    }

    /// The newest positions in the order of their ends, with the newest dropped one.
    fn newest(globals: &[u64], dropped: Option<u64>) -> Newest {
        let told = globals
            .iter()
            .map(|global| Arc::new(PositionEvent::of(&replayed(1, *global, "chat"), None)));
        Newest {
            rows: told.collect(),
            oldest: Some(at(1)),
            dropped: dropped.map(at),
        }
    }

    fn seen(window: &Window, newest: &Newest) -> Option<Vec<String>> {
        let rows = window.of_newest(newest)?;
        Some(rows.into_iter().map(|row| row.id).collect())
    }

    #[test]
    fn a_window_is_the_first_behind_a_place_or_the_last_before_one() {
        let all = newest(&[1, 3, 2, 5, 4, 6], None);
        let window = |after, before, limit| Window {
            after,
            before,
            limit,
            only: Only::default(),
        };
        let of = |window: &Window| seen(window, &all).unwrap();
        assert_eq!(of(&window(None, None, 2)), ["1.5", "1.6"]);
        assert_eq!(of(&window(None, Some(at(4)), 2)), ["1.2", "1.3"]);
        assert_eq!(of(&window(Some(at(1)), None, 2)), ["1.2", "1.3"]);
        assert_eq!(of(&window(Some(at(1)), Some(at(3)), 9)), ["1.2"]);
        let odd = Window {
            only: Only {
                tenant: None,
                gpu: Some(1),
            },
            ..window(None, None, 2)
        };
        assert_eq!(of(&odd), ["1.3", "1.5"]);
    }

    #[test]
    fn where_older_ones_may_be_in_it_the_record_is_asked() {
        let some = newest(&[5, 7, 6, 8], Some(4));
        let mut window = Window {
            limit: 3,
            ..Window::default()
        };
        assert_eq!(seen(&window, &some).unwrap(), ["1.6", "1.7", "1.8"]);
        window.limit = 5;
        assert_eq!(seen(&window, &some), None);
        window.after = Some(at(4));
        assert!(seen(&window, &some).is_some());
        window.after = Some(at(3));
        assert_eq!(seen(&window, &some), None);
    }
}
