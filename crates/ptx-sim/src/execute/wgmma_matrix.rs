//! Matrices of `wgmma` in shared memory (PTX ISA 9.7.15.5): descriptors, layouts and swizzles.
//!
//! With rows of a matrix along M or N, and T elements in 16 bytes, element (i, k) of a matrix lies, before the swizzle, at
//!
//! | major | swizzle | bytes from the start |
//! |---|---|---|
//! | K | none | (i mod 8) 16 + (i / 8) stride + (k / T) leading + (k mod T) element |
//! | K | S bytes | (i mod 8) S + (i / 8) stride + k element |
//! | M or N | none | (i mod 8) 2 + (i / 8) stride + (k mod 8) 16 + (k / 8) leading |
//! | M or N | S bytes | (i mod S/2) 2 + (i / (S/2)) leading + (k mod 8) S + (k / 8) stride |
//!
//! The swizzle exclusive-ors bits 4 and up of the address with bits 7 and up, one, two or three of them. Patterns start at multiples of
//! 1024, 512 or 256 bytes, plus the base offset of 128 bytes each.

/// Bytes of a unit.
const UNIT: u32 = 16;

/// A decoded matrix descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    start: u32,
    leading: u32,
    stride: u32,
    base: u32,
    /// Bytes of the swizzle; 16 for none.
    span: u32,
}

impl Descriptor {
    /// Decodes a descriptor; `Err` says what is wrong with it.
    pub(super) fn new(raw: u64) -> Result<Descriptor, String> {
        const RESERVED: u64 = 0x3ff1_c000_c000_c000;
        if raw & RESERVED != 0 {
            return Err(format!("matrix descriptor {raw:#018x} has reserved bits set"));
        }
        let field = |at: u32| (raw >> at & 0x3fff) as u32 * UNIT;
        let span = match raw >> 62 {
            0 => 16,
            1 => 128,
            2 => 64,
            _ => 32,
        };
        let base = (raw >> 49 & 7) as u32;
        Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), base, span })
    }

    fn unit(&self, offset: u32) -> u32 {
        let address = self.start.wrapping_add(offset) & 0x3ffff;
        let mask = self.span / UNIT - 1;
        let row = (address >> 7).wrapping_sub(self.base) & mask;
        (address ^ row << 4) / UNIT
    }

    /// The 16-byte units of rows of a matrix, each a number of the unit in shared memory: major along K two of each row, one after the other;
    /// else for each of 16 steps of k those of eight rows each.
    pub(super) fn units(&self, rows: std::ops::Range<u32>, transposed: bool) -> Vec<u32> {
        let swizzled = self.span > UNIT;
        let mut out = Vec::with_capacity(2 * rows.len());
        if transposed {
            let per = self.span / UNIT;
            for k in 0..16 {
                for c in rows.start / 8..rows.end / 8 {
                    out.push(self.unit(if swizzled {
                        c % per * UNIT + c / per * self.leading + k % 8 * self.span + k / 8 * self.stride
                    } else {
                        c * self.stride + k % 8 * UNIT + k / 8 * self.leading
                    }));
                }
            }
        } else {
            let step = if swizzled { UNIT } else { self.leading };
            for i in rows {
                for c in 0..2 {
                    out.push(self.unit(i % 8 * self.span + i / 8 * self.stride + c * step));
                }
            }
        }
        out
    }
}

/// Calls `f` with row, step of k and the 16-byte unit's element, for the units of `rows` rows from [`Descriptor::units`]: `T` elements in each.
pub(super) fn elements<const BYTES: usize>(
    data: &[u8],
    units: &[u32],
    rows: usize,
    transposed: bool,
    mut f: impl FnMut(usize, usize, u32),
) {
    let per = UNIT as usize / BYTES;
    for (number, &unit) in units.iter().enumerate() {
        let at = unit as usize * UNIT as usize;
        for (e, raw) in data[at..at + UNIT as usize].chunks_exact(BYTES).enumerate() {
            let bits = raw.iter().rev().fold(0u32, |all, &b| all << 8 | u32::from(b));
            if transposed {
                f(number % (rows / 8) * 8 + e, number / (rows / 8), bits);
            } else {
                f(number / 2, number % 2 * per + e, bits);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_read_field_by_field() {
        let d = Descriptor::new(0x4000_0040_0200_0400).unwrap();
        assert_eq!((d.start, d.leading, d.stride, d.base, d.span), (0x4000, 0x2000, 0x400, 0, 128));
        let d = Descriptor::new(0xc006_0001_0002_0003).unwrap();
        assert_eq!((d.start, d.leading, d.stride, d.base, d.span), (48, 32, 16, 3, 32));
        assert!(Descriptor::new(1 << 14).is_err() && Descriptor::new(1 << 46).is_err());
    }

    /// A row of 64 f16 in 128 bytes: the eight pieces of row r lie at r exclusive-or their number.
    #[test]
    fn the_widest_swizzle_permutes_the_pieces_of_a_row() {
        let d = Descriptor::new(1 << 62 | 64 << 32).unwrap();
        for row in 0..16 {
            assert_eq!(d.units(row..row + 1, false), [row * 8 + (row % 8), row * 8 + (1 ^ row % 8)]);
        }
        // The second step of k starts 32 bytes on.
        let next = Descriptor::new(1 << 62 | 64 << 32 | 2).unwrap();
        assert_eq!(next.units(5..6, false), [5 * 8 + (2 ^ 5), 5 * 8 + (3 ^ 5)]);
    }
}
