//! Element types by their numbers in the schema. Source: `ScalarType` of `torch/_export/serde/schema.py`.

use tenon_tensor::DType;

use crate::error::Pt2Error;

const TYPES: &[(i64, DType)] = &[
    (1, DType::U8),
    (2, DType::I8),
    (3, DType::I16),
    (4, DType::I32),
    (5, DType::I64),
    (6, DType::F16),
    (7, DType::F32),
    (8, DType::F64),
    (10, DType::Complex64),
    (11, DType::Complex128),
    (12, DType::Bool),
    (13, DType::BF16),
    (28, DType::U16),
    (29, DType::F8E4M3FN),
    (30, DType::F8E5M2),
    (31, DType::F8E4M3FNUZ),
    (32, DType::F8E5M2FNUZ),
    (33, DType::F8E8M0FNU),
    (34, DType::U32),
    (35, DType::U64),
];

/// The element type of a number; `None` where Tenon has none.
pub(crate) fn of_number(number: i64) -> Option<DType> {
    TYPES.iter().find(|(known, _)| *known == number).map(|(_, dtype)| *dtype)
}

/// The element type of a tensor.
pub(crate) fn read(number: i64, owner: &str) -> Result<DType, Pt2Error> {
    of_number(number).ok_or_else(|| Pt2Error::Type {
        owner: owner.to_owned(),
        what: format!("elements of type number {number} of the schema"),
    })
}
