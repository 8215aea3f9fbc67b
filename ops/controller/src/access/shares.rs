//! Slots with a limit per login, so that no login can take all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The login has its maximum.
    Own,
    /// All slots are taken.
    All,
}

/// Slots: a maximum in all, and a maximum per login.
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
    /// Slots, all of them free.
    pub(crate) fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            all,
            each,
            taken: Mutex::default(),
        })
    }

    /// Takes a slot for a login.
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

    /// Maximum number of slots of one login.
    pub(crate) fn each(&self) -> usize {
        self.each
    }

    /// Number of slots taken.
    pub(crate) fn all_taken(&self) -> usize {
        self.taken().all
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot, released on drop.
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
