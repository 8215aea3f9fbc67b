//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

/// Items of a page where nobody says.
const USUAL: usize = 100;
/// Items of a page at most.
const MOST: usize = 1_000;

/// Which page.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Items at most, 1 to 1,000; 100 where nobody says.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// What the page before said is `next`.
    pub(crate) after: Option<String>,
}

impl Page {
    /// Items at most.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        limit(self.limit)
    }

    /// The page of sorted items, each with its name.
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

/// Items at most, as somebody says it.
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
    /// What to ask for as `after` to get the page behind; null where there is none.
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
