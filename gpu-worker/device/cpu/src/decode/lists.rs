//! Many short lists of numbers in one piece of memory.

/// Lists of numbers, one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// Start of each list, then the end.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Groups pairs of a list's number and an item by list; items keep their order.
    pub(crate) fn of(count: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0_u32; count + 1];
        for (list, _) in pairs {
            starts[*list as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for (list, item) in pairs {
            let at = &mut next[*list as usize];
            items[*at as usize] = *item;
            *at += 1;
        }
        Self { starts, items }
    }

    /// A list.
    pub(crate) fn get(&self, list: usize) -> &[u32] {
        match (self.starts.get(list), self.starts.get(list + 1)) {
            (Some(start), Some(end)) => &self.items[*start as usize..*end as usize],
            _ => &[],
        }
    }
}
