//! Places of which each login has a share, so that none can take all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The login has as many as one may have.
    Own,
    /// All are taken.
    All,
}

/// Places: so many in all, and so many for each login.
#[derive(Debug)]
pub(crate) struct Shares {
    all: usize,
    each: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<String, usize>,
}

impl Shares {
    /// None of which is taken.
    pub(crate) fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            all,
            each,
            taken: Mutex::default(),
        })
    }

    /// A place for a login.
    pub(crate) fn take(self: &Arc<Self>, who: &str) -> Result<Share, Full> {
        let mut taken = self.taken();
        if taken.by.get(who).is_some_and(|own| *own >= self.each) {
            return Err(Full::Own);
        }
        if taken.all >= self.all {
            return Err(Full::All);
        }
        taken.all += 1;
        *taken.by.entry(who.to_owned()).or_default() += 1;
        Ok(Share {
            of: Arc::clone(self),
            who: who.to_owned(),
        })
    }

    /// Places of one login.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    /// Places that are taken.
    pub(crate) fn all_taken(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    who: String,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by.get_mut(&self.who) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_takes_its_share_and_no_more_and_gives_it_back() {
        let shares = Shares::new(4, 3);
        let mine: Vec<_> = (0..3).map(|_| shares.take("a").unwrap()).collect();
        assert_eq!(shares.take("a").err(), Some(Full::Own));
        let other = shares.take("b").unwrap();
        assert_eq!(shares.take("b").err(), Some(Full::All));
        drop(mine);
        assert!(shares.take("b").is_ok());
        drop(other);
        assert_eq!(shares.all_taken(), 0);
        assert!(shares.taken().by.is_empty(), "nothing is left of it");
    }
}
