//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

/// Default number of items per page.
const USUAL: usize = 100;
/// Maximum number of items per page.
const MOST: usize = 1_000;

/// Selection of a page.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Maximum number of items, 1 to 1,000; the default is 100.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// The `next` of the previous page.
    pub(crate) after: Option<String>,
}

impl Page {
    /// The maximum number of items.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        limit(self.limit)
    }

    /// Cuts a page out of sorted items with names.
    pub(crate) fn cut<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        name: impl Fn(&T) -> String,
    ) -> Result<Paged<T>, Problem> {
        let limit = self.limit()?;
        let after = self.after.as_deref();
        let behind = items
            .into_iter()
            .filter(|item| after.is_none_or(|after| *name(item) > *after));
        let mut items: Vec<T> = behind.take(limit + 1).collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(&name);
        Ok(Paged { items, next })
    }
}

/// The maximum number of items, from a request.
pub(crate) fn limit(said: Option<usize>) -> Result<usize, Problem> {
    match said.unwrap_or(USUAL) {
        limit if (1..=MOST).contains(&limit) => Ok(limit),
        limit => Err(Problem::malformed(format!(
            "query: limit is 1 to {MOST}, not {limit}"
        ))),
    }
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Paged<T> {
    /// Its items.
    pub(crate) items: Vec<T>,
    /// The `after` of the next page; null on the last page.
    pub(crate) next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_together_are_the_list() {
        let all: Vec<String> = (0..25).map(|number| format!("t{number:02}")).collect();
        let mut page = Page {
            limit: Some(7),
            after: None,
        };
        let mut read = Vec::new();
        loop {
            let cut = page.cut(all.clone(), Clone::clone).unwrap();
            read.extend(cut.items);
            match cut.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        assert_eq!(read, all);
        for bad in [0, 1_001] {
            assert!(limit(Some(bad)).is_err());
        }
    }
}
