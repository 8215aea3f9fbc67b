//! The allocation that an illegal access missed, in words. Searched only after a fault.

use super::{Live, Memory};
/// Addresses below this one are offsets from a null pointer.
const NULL: u64 = 1 << 16;

fn bytes(count: u64) -> String {
    match count {
        1 => "1 byte".into(),
        _ => format!("{count} bytes"),
    }
}

impl Memory {
    /// Tells the allocation that an access of `len` bytes missed: the freed one that it was within, or the nearest
    /// live one. `None` if there is none.
    pub(crate) fn missed(&self, addr: u64, len: u64) -> Option<String> {
        let end = addr.checked_add(len)?;
        if end <= NULL {
            return Some(match addr {
                0 => "a null pointer".into(),
                _ => format!("{} past a null pointer", bytes(addr)),
            });
        }
        if let Some((start, end)) = self.freed.find(addr, end) {
            let size = bytes(end - start);
            return Some(format!(
                "within an allocation of {size} at {start:#x} that was freed"
            ));
        }
        let next = self.live.partition_point(|live| live.start <= addr);
        let below = next.checked_sub(1).and_then(|at| self.live.get(at));
        let above = self.live.get(next);
        let past = below.map(|live| (addr.saturating_sub(live.end), live));
        let before = above.map(|live| (live.start.saturating_sub(end), live));
        match (past, before) {
            (Some((distance, live)), before) if before.is_none_or(|it| distance <= it.0) => {
                Some(self.past(live, (addr, end)))
            }
            (_, Some((_, live))) => Some(self.before(live, (addr, end))),
            _ => None,
        }
    }

    fn past(&self, live: &Live, (addr, end): (u64, u64)) -> String {
        let named = self.named(live);
        match addr.checked_sub(live.end) {
            Some(0) => format!("right at the end of {named}"),
            Some(distance) => format!("{} past the end of {named}", bytes(distance)),
            None => {
                let (beyond, all) = (end - live.end, bytes(end - addr));
                format!("the last {beyond} of {all} are past the end of {named}")
            }
        }
    }

    fn before(&self, live: &Live, (addr, end): (u64, u64)) -> String {
        let named = self.named(live);
        match end <= live.start {
            true => format!("{} before the start of {named}", bytes(live.start - addr)),
            false => {
                let (ahead, all) = (live.start - addr, bytes(end - addr));
                format!("the first {ahead} of {all} are before the start of {named}")
            }
        }
    }

    fn named(&self, live: &Live) -> String {
        let kind = match live.start < self.internal_base() {
            true => "an allocation",
            false if self.heap().is_some_and(|heap| heap.starts_at(live.start)) => "the heap",
            false => "a module variable",
        };
        let size = bytes(live.end - live.start);
        format!("{kind} of {size} at {:#x}", live.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 32;

    #[test]
    fn an_access_is_told_by_the_nearest_allocation() {
        let mut memory = Memory::new(BASE, 1 << 24, 1 << 24).expect("a window");
        assert_eq!(memory.missed(BASE, 4), None);
        memory.alloc(BASE + 0x1000, 4096).expect("free");
        memory.alloc(BASE + 0x3000, 1).expect("free");
        let page = "an allocation of 4096 bytes at 0x100001000";
        let byte = "an allocation of 1 byte at 0x100003000";
        for (addr, len, wanted) in [
            (BASE + 0x2000, 4, format!("right at the end of {page}")),
            (BASE + 0x2060, 4, format!("96 bytes past the end of {page}")),
            (
                BASE + 0x1ffe,
                4,
                format!("the last 2 of 4 bytes are past the end of {page}"),
            ),
            (
                BASE + 0xffe,
                4,
                format!("the first 2 of 4 bytes are before the start of {page}"),
            ),
            (
                BASE + 0xff8,
                4,
                format!("8 bytes before the start of {page}"),
            ),
            (
                0x1_0000,
                4,
                format!(
                    "{} bytes before the start of {page}",
                    BASE + 0x1000 - 0x1_0000
                ),
            ),
            (
                BASE + 0x2fff,
                1,
                format!("1 byte before the start of {byte}"),
            ),
            (BASE + 0x3002, 1, format!("1 byte past the end of {byte}")),
            (16, 4, "16 bytes past a null pointer".into()),
        ] {
            assert_eq!(memory.missed(addr, len), Some(wanted), "{addr:#x}");
        }
        assert_eq!(memory.missed(u64::MAX, 4), None);
    }

    #[test]
    fn a_freed_allocation_is_remembered_until_many_others_were_freed() {
        let mut memory = Memory::new(BASE, 1 << 24, 1 << 24).expect("a window");
        memory.alloc(BASE, 512).expect("free");
        memory.free(BASE).expect("an allocation");
        let wanted = "within an allocation of 512 bytes at 0x100000000 that was freed";
        assert_eq!(memory.missed(BASE + 508, 4).as_deref(), Some(wanted));
        assert_eq!(memory.missed(BASE + 510, 4), None);
        for at in 1..=64 {
            memory.alloc(BASE + 0x1000 * at, 8).expect("free");
            memory.free(BASE + 0x1000 * at).expect("an allocation");
        }
        assert_eq!(memory.missed(BASE + 508, 4), None);
        // Bytes that are in use again belong to their new allocation.
        memory.alloc(BASE + 0x1000, 512).expect("free");
        memory.free(BASE + 0x1000).expect("an allocation");
        memory.alloc(BASE + 0x1000, 8).expect("free");
        let wanted = "8 bytes past the end of an allocation of 8 bytes at 0x100001000";
        assert_eq!(memory.missed(BASE + 0x1010, 4).as_deref(), Some(wanted));
    }
}
