//! Stored ZIP files: the directory and where each entry's bytes lie.
//!
//! Strict: one disk, no encryption, no compression, local headers that agree with the directory. Checksums are read and not computed: who reads an
//! entry does that. Source: APPNOTE.TXT of PKWARE, sections 4.3, 4.4.7 (CRC-32) and 4.5 (ZIP64).

use std::ops::Range;

use crate::error::{Pt2Error, plain};

/// Most entries of an archive.
const MAX_ENTRIES: u64 = 1 << 20;

/// An entry: its name, the place of its bytes in the file, and their CRC-32.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    pub range: Range<usize>,
    pub checksum: u32,
}

fn damaged(reason: impl Into<String>) -> Pt2Error {
    Pt2Error::Archive { reason: reason.into() }
}

/// Numbers read from a place of the file, little endian.
struct Fields<'d> {
    data: &'d [u8],
}

impl<'d> Fields<'d> {
    fn at(data: &'d [u8], offset: u64) -> Result<Fields<'d>, Pt2Error> {
        let rest = usize::try_from(offset).ok().and_then(|offset| data.get(offset..));
        rest.map(|data| Fields { data }).ok_or_else(|| damaged("a record reaches beyond the file"))
    }

    fn take(&mut self, length: usize) -> Result<&'d [u8], Pt2Error> {
        match self.data.split_at_checked(length) {
            Some((taken, rest)) => {
                self.data = rest;
                Ok(taken)
            }
            None => Err(damaged("a record reaches beyond the file")),
        }
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Pt2Error> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signature(&mut self, expected: &[u8; 4], what: &str) -> Result<(), Pt2Error> {
        if self.take(4)? == expected { Ok(()) } else { Err(damaged(format!("{what} is not where it must be"))) }
    }
}

/// Where the directory lies: offset, size, number of entries.
fn directory(data: &[u8]) -> Result<(u64, u64, u64), Pt2Error> {
    const END: usize = 22;
    const LONGEST_COMMENT: usize = 0xffff;
    if data.len() < END {
        return Err(damaged("it is too short"));
    }
    let last = data.len() - END;
    let first = last.saturating_sub(LONGEST_COMMENT);
    let is_end = |at: &usize| {
        data[*at..].starts_with(b"PK\x05\x06")
            && usize::from(u16::from_le_bytes([data[at + 20], data[at + 21]])) == last - at
    };
    let end = (first..=last).rev().find(is_end).ok_or_else(|| damaged("it has no directory"))?;
    let mut fields = Fields::at(data, end as u64 + 4)?;
    let (disk, start_disk) = (fields.number(2)?, fields.number(2)?);
    let (here, entries) = (fields.number(2)?, fields.number(2)?);
    let (size, offset) = (fields.number(4)?, fields.number(4)?);
    let needs_64 = entries == 0xffff || size == 0xffff_ffff || offset == 0xffff_ffff;
    let locator = end.checked_sub(20).filter(|at| data[*at..].starts_with(b"PK\x06\x07"));
    let (disks, here, entries, size, offset) = match locator {
        Some(locator) if needs_64 => {
            let mut fields = Fields::at(data, locator as u64 + 4)?;
            let disk = fields.number(4)?;
            let mut fields = Fields::at(data, fields.number(8)?)?;
            fields.signature(b"PK\x06\x06", "the end of the directory")?;
            fields.take(12)?;
            let disks = disk + fields.number(4)? + fields.number(4)?;
            (disks, fields.number(8)?, fields.number(8)?, fields.number(8)?, fields.number(8)?)
        }
        _ => (disk + start_disk, here, entries, size, offset),
    };
    if disks != 0 || here != entries {
        return Err(damaged("it is part of several files"));
    }
    if entries > MAX_ENTRIES {
        return Err(Pt2Error::TooMany { what: "entries of the archive", limit: MAX_ENTRIES as usize });
    }
    if offset.checked_add(size).is_none_or(|after| after > end as u64) {
        return Err(damaged("the directory reaches beyond its end"));
    }
    Ok((offset, size, entries))
}

/// All entries but folders, in the directory's order.
pub(crate) fn entries(data: &[u8]) -> Result<Vec<Entry>, Pt2Error> {
    let (offset, size, count) = directory(data)?;
    let mut fields = Fields::at(data, offset)?;
    fields.data = &fields.data[..size as usize];
    let mut found = Vec::new();
    for _ in 0..count {
        fields.signature(b"PK\x01\x02", "an entry of the directory")?;
        fields.take(4)?;
        let (flags, method) = (fields.number(2)?, fields.number(2)?);
        fields.take(4)?;
        let checksum = fields.number(4)? as u32;
        let (mut stored, mut size) = (fields.number(4)?, fields.number(4)?);
        let (name, extra, comment) = (fields.number(2)?, fields.number(2)?, fields.number(2)?);
        let disk = fields.number(2)?;
        fields.take(6)?;
        let mut local = fields.number(4)?;
        let name = fields.take(name as usize)?;
        let mut extra = Fields { data: fields.take(extra as usize)? };
        fields.take(comment as usize)?;
        let text = std::str::from_utf8(name).map_err(|_| damaged("the name of an entry is no UTF-8"))?;
        // The ZIP64 field has the numbers that do not fit, in this order.
        while extra.data.len() >= 4 {
            let (kind, length) = (extra.number(2)?, extra.number(2)?);
            let Ok(body) = extra.take(length as usize) else { break };
            if kind == 1 {
                let mut body = Fields { data: body };
                for value in [&mut size, &mut stored, &mut local] {
                    if *value == 0xffff_ffff {
                        *value = body.number(8)?;
                    }
                }
            }
        }
        let refused = |how| Err(Pt2Error::Stored { entry: plain(text), how });
        if flags & 1 != 0 {
            return refused("encrypted");
        }
        if method != 0 {
            return refused("compressed, so that it cannot be mapped");
        }
        if stored != size || disk != 0 {
            return refused("stored, but its two sizes differ");
        }
        let mut header = Fields::at(data, local)?;
        header.signature(b"PK\x03\x04", "the header of an entry")?;
        header.take(22)?;
        let (name_length, extra_length) = (header.number(2)?, header.number(2)?);
        if header.take(name_length as usize)? != name {
            return Err(damaged(format!("the entry `{}` has another name in its header", plain(text))));
        }
        header.take(extra_length as usize)?;
        let begin = data.len() - header.data.len();
        let length = usize::try_from(size).ok().filter(|size| *size <= header.data.len());
        let length = length.ok_or_else(|| damaged(format!("the entry `{}` reaches beyond the file", plain(text))))?;
        if !text.ends_with('/') {
            found.push(Entry { name: text.to_owned(), range: begin..begin + length, checksum });
        }
    }
    Ok(found)
}
