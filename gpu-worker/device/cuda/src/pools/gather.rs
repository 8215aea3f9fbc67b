//! Bytes that come in slices, gathered into buffers, each of which is copied at once.

/// A buffer of a fixed size.
pub(crate) trait Room {
    /// Bytes of the buffer.
    fn len(&self) -> usize;

    /// Writes bytes at an offset.
    fn fill(&mut self, offset: usize, bytes: &[u8]);
}

/// A piece of the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'s, R> {
    /// In a buffer, which the piece fills.
    Gathered(R),
    /// As it came, because there was no buffer.
    Direct(&'s [u8]),
}

/// Hands over the `total` bytes of the slices piece by piece, each with its offset. A buffer is lent for at
/// most as many bytes as are left.
///
/// # Errors
/// The first of `put`.
pub(crate) fn gather<'s, R: Room, E>(
    total: usize,
    slices: impl Iterator<Item = &'s [u8]>,
    mut lend: impl FnMut(usize) -> Option<R>,
    mut put: impl FnMut(usize, Piece<'s, R>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut at, mut filled) = (0, 0);
    let mut buffer = None;
    for mut slice in slices {
        while !slice.is_empty() {
            let mut room = match buffer.take().or_else(|| lend(total - at)) {
                Some(room) => room,
                None => {
                    put(at, Piece::Direct(slice))?;
                    at += slice.len();
                    break;
                }
            };
            let (now, later) = slice.split_at(slice.len().min(room.len() - filled));
            room.fill(filled, now);
            filled += now.len();
            slice = later;
            if filled < room.len() {
                buffer = Some(room);
                continue;
            }
            put(at, Piece::Gathered(room))?;
            at += filled;
            filled = 0;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Room for Vec<u8> {
        fn len(&self) -> usize {
            self.len()
        }

        fn fill(&mut self, offset: usize, bytes: &[u8]) {
            self[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Returns the pieces of slices of these sizes, with `buffers` buffers of at most 10 bytes: the size of
    /// each, and true if it was gathered.
    fn pieces(sizes: &[usize], mut buffers: usize) -> Vec<(usize, bool)> {
        let total = sizes.iter().sum();
        let bytes: Vec<u8> = (0..total).map(|at| at as u8).collect();
        let mut rest = &bytes[..];
        let slices = sizes.iter().map(|size| {
            let (slice, later) = rest.split_at(*size);
            rest = later;
            slice
        });
        let lend = |left: usize| {
            buffers = buffers.checked_sub(1)?;
            Some(vec![0xff; left.min(10)])
        };
        let (mut there, mut pieces) = (Vec::new(), Vec::new());
        let put = |at: usize, piece: Piece<'_, Vec<u8>>| {
            assert_eq!(at, there.len(), "pieces follow one another");
            let (bytes, gathered) = match piece {
                Piece::Gathered(bytes) => (bytes, true),
                Piece::Direct(bytes) => (bytes.to_vec(), false),
            };
            pieces.push((bytes.len(), gathered));
            there.extend(bytes);
            Ok::<_, ()>(())
        };
        assert_eq!(gather(total, slices, lend, put), Ok(()));
        assert_eq!(there, bytes);
        pieces
    }

    #[test]
    fn slices_are_gathered_and_divided() {
        assert_eq!(pieces(&[4, 4, 4, 4, 4], 9), [(10, true), (10, true)]);
        assert_eq!(pieces(&[23], 9), [(10, true), (10, true), (3, true)]);
        assert_eq!(pieces(&[0, 3, 0, 2], 9), [(5, true)]);
        assert_eq!(pieces(&[], 9), []);
        assert_eq!(pieces(&[0], 9), []);
    }

    #[test]
    fn slices_go_as_they_are_where_no_buffer_is_left() {
        assert_eq!(pieces(&[7, 8], 0), [(7, false), (8, false)]);
        assert_eq!(pieces(&[4, 8, 9], 1), [(10, true), (2, false), (9, false)]);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let slices = [&[1_u8; 25][..]];
        let mut puts = 0;
        let put = |_, _: Piece<'_, Vec<u8>>| {
            puts += 1;
            if puts == 2 { Err("full") } else { Ok(()) }
        };
        let lend = |left: usize| Some(vec![0; left.min(10)]);
        assert_eq!(gather(25, slices.into_iter(), lend, put), Err("full"));
        assert_eq!(puts, 2);
    }
}
