//! Where in a tensor each place of a tile looks.

use tenon_hw_dialect::{Scalar, Tile, TileBuilder, line_layout};
use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::strides;
use crate::schedule::size::{Size, is_wide, offset_type};

/// A coordinate of every place: one number, or a tile of i32. Row-major numbers of elements are i32 too, or i64 in tensors that need it.
#[derive(Clone)]
pub enum Coordinate<'m> {
    /// The same in every place.
    Constant(i32),
    /// A tile of i32.
    Tile(Tile<'m>),
}

/// The element of a tensor of a given shape that each place of a tile looks at.
#[derive(Clone)]
pub struct Index<'m> {
    /// Shape of the tensor.
    pub sizes: Vec<Size>,
    /// Layout of the places.
    pub layout: TileLayout,
    /// Row-major number of the element, where it is at hand.
    linear: Option<Tile<'m>>,
    /// Coordinates, where they are at hand.
    coordinates: Option<Vec<Coordinate<'m>>>,
    /// Registers in a row whose elements follow one another along the last dimension without crossing its end, aligned to their number.
    pub contiguity: u32,
    /// Whether each place looks at its own element of the value that a family computes, whatever the shape it is read as.
    pub own: bool,
}

/// What tells two indices apart: shape, whether it is the family's own, number and coordinates.
pub type IndexKey = (Vec<Size>, bool, Option<usize>, Option<Vec<Result<usize, i32>>>);

impl<'m> Index<'m> {
    /// Equal for indices at which every place looks at the same element.
    pub fn key(&self) -> IndexKey {
        let coordinate = |coordinate: &Coordinate<'m>| match coordinate {
            Coordinate::Constant(value) => Err(*value),
            Coordinate::Tile(tile) => Ok(tile.value.key()),
        };
        let coordinates = self.coordinates.as_ref().map(|list| list.iter().map(coordinate).collect());
        (self.sizes.clone(), self.own, self.linear.as_ref().map(|tile| tile.value.key()), coordinates)
    }

    /// Places that look at elements by number; `contiguity` registers in a row are consecutive, aligned numbers.
    pub fn from_linear(sizes: &[Size], linear: Tile<'m>, contiguity: u32) -> Self {
        Index {
            sizes: sizes.to_vec(),
            layout: linear.ty.layout.clone(),
            linear: Some(linear),
            coordinates: None,
            contiguity,
            own: false,
        }
    }

    /// Places that look at elements by coordinates.
    pub fn from_coordinates(
        sizes: &[Size],
        coordinates: Vec<Coordinate<'m>>,
        layout: &TileLayout,
        contiguity: u32,
    ) -> Self {
        Index {
            sizes: sizes.to_vec(),
            layout: layout.clone(),
            linear: None,
            coordinates: Some(coordinates),
            contiguity,
            own: false,
        }
    }

    /// Marks the index at which a family's own value is at hand.
    pub fn as_own(mut self) -> Self {
        self.own = true;
        self
    }

    /// The same index for a value that is not at hand.
    pub fn as_other(mut self) -> Self {
        self.own = false;
        self
    }

    /// Row-major number of the element.
    pub fn linear(&self, builder: TileBuilder<'m>) -> Result<Tile<'m>, LoweringError> {
        if let Some(linear) = &self.linear {
            return Ok(linear.clone());
        }
        let coordinates = self.coordinates.clone().unwrap_or_default();
        offset(builder, &coordinates, &self.sizes, &self.layout)
    }

    /// Coordinates of the element.
    pub fn coordinates(&self, builder: TileBuilder<'m>) -> Result<Vec<Coordinate<'m>>, LoweringError> {
        if let Some(coordinates) = &self.coordinates {
            return Ok(coordinates.clone());
        }
        let Some(linear) = &self.linear else { return Ok(Vec::new()) };
        delinearize(builder, linear, &self.sizes)
    }

    /// The same elements under another shape.
    pub fn reshaped(&self, builder: TileBuilder<'m>, sizes: &[Size]) -> Result<Self, LoweringError> {
        if sizes == self.sizes {
            return Ok(self.clone());
        }
        let linear = self.linear(builder)?;
        // Registers that are consecutive numbers stay so; the end of a shorter last dimension may come between them.
        let contiguity = common(self.contiguity, sizes.last().copied().unwrap_or(Size::fixed(1)));
        Ok(Index { own: self.own, ..Index::from_linear(sizes, linear, contiguity) })
    }

    /// The element of a tensor that NumPy broadcasts to this index's shape.
    pub fn broadcast_from(&self, builder: TileBuilder<'m>, sizes: &[Size]) -> Result<Self, LoweringError> {
        if sizes == self.sizes {
            return Ok(self.clone());
        }
        if sizes.iter().product::<Size>() == self.sizes.iter().product::<Size>() {
            // Only dimensions of 1 were put in.
            return self.reshaped(builder, sizes);
        }
        if sizes.iter().all(|size| *size == 1) {
            let coordinates = vec![Coordinate::Constant(0); sizes.len()];
            return Ok(Index::from_coordinates(sizes, coordinates, &self.layout, 1));
        }
        // A trailing part of the shape: the number modulo its size.
        let stripped: Vec<Size> = sizes.iter().copied().skip_while(|size| *size == 1).collect();
        if let Some(linear) = &self.linear
            && self.sizes.ends_with(&stripped)
        {
            let count: Size = stripped.iter().product();
            if is_wide(&stripped) {
                // The remainder may need 64 bits itself.
                let coordinates = delinearize(builder, linear, &self.sizes)?;
                let picked = coordinates[self.sizes.len() - stripped.len()..].to_vec();
                let ones = vec![Coordinate::Constant(0); sizes.len() - stripped.len()];
                return Ok(Index::from_coordinates(sizes, [ones, picked].concat(), &self.layout, self.contiguity));
            }
            let wide = linear.ty.element == DType::I64;
            let linear = builder.map1(&[linear], &self.layout, DType::I32, |scalar, values| {
                let (_, remainder) =
                    if wide { count.div_rem_wide(scalar, values[0])? } else { count.div_rem(scalar, values[0])? };
                Ok(remainder)
            })?;
            return Ok(Index::from_linear(sizes, linear, self.contiguity));
        }
        let coordinates = self.coordinates(builder)?;
        let skipped = self.sizes.len() - sizes.len();
        let differing = (0..sizes.len()).find(|dim| !(sizes[*dim] == 1 || sizes[*dim] == self.sizes[skipped + dim]));
        if let Some(dim) = differing {
            // Fixed sizes were checked when types were inferred; of extents it is not known whether one of them is 1.
            return Err(LoweringError::padded(format!(
                "dimension {dim} of an operand meets one that is not known to be as large: both follow from padded dimensions, in different ways"
            )));
        }
        let picked = sizes
            .iter()
            .enumerate()
            .map(|(dim, size)| if *size == 1 { Coordinate::Constant(0) } else { coordinates[skipped + dim].clone() })
            .collect();
        let contiguity = if sizes.last() == self.sizes.last() { self.contiguity } else { 1 };
        Ok(Index::from_coordinates(sizes, picked, &self.layout, contiguity))
    }
}

/// The largest power of two that divides both a contiguity and a size.
pub fn common(contiguity: u32, size: impl Into<Size>) -> u32 {
    contiguity.min(size.into().power_of_two())
}

/// Σ coordinate · stride, row-major: i64 where a tensor of these sizes needs it, else i32.
fn offset<'m>(
    builder: TileBuilder<'m>,
    coordinates: &[Coordinate<'m>],
    sizes: &[Size],
    layout: &TileLayout,
) -> Result<Tile<'m>, LoweringError> {
    let wide = is_wide(sizes);
    let element = offset_type(wide);
    let mut constant = 0i64;
    let mut tiles = Vec::new();
    let mut factors = Vec::new();
    let mut moving: Vec<(i32, Size)> = Vec::new();
    for (coordinate, stride) in coordinates.iter().zip(strides(sizes)) {
        match coordinate {
            Coordinate::Constant(0) => {}
            Coordinate::Constant(value) => match stride.known() {
                Some(stride) => constant = constant.wrapping_add(i64::from(*value).wrapping_mul(stride as i64)),
                None => moving.push((*value, stride)),
            },
            Coordinate::Tile(tile) => {
                tiles.push(tile);
                factors.push(stride);
            }
        }
    }
    let constant = if wide { constant } else { i64::from(constant as i32) };
    let plus = |code: Scalar<'m>, sum: Value<'m>| {
        let sum = if constant == 0 { sum } else { code.add(sum, code.int(constant, element)?)? };
        moving
            .iter()
            .try_fold(sum, |sum, (value, stride)| code.add(sum, stride.scale_to(code, code.i32(*value)?, wide)?))
    };
    if tiles.is_empty() {
        let code = builder.scalar();
        let start = if moving.is_empty() { code.int(constant, element)? } else { plus(code, code.int(0, element)?)? };
        return Ok(builder.splat(start, element, layout)?);
    }
    Ok(builder.map1(&tiles, layout, element, |scalar, values| {
        let mut sum = factors[0].scale_to(scalar, values[0], wide)?;
        for (value, factor) in values.iter().zip(&factors).skip(1) {
            sum = scalar.add(sum, factor.scale_to(scalar, *value, wide)?)?;
        }
        Ok(plus(scalar, sum)?)
    })?)
}

/// Coordinates of a row-major number.
pub fn delinearize<'m>(
    builder: TileBuilder<'m>,
    linear: &Tile<'m>,
    sizes: &[Size],
) -> Result<Vec<Coordinate<'m>>, LoweringError> {
    // Dimensions of 1 are always 0; the outermost other one needs no remainder.
    let kept: Vec<usize> = (0..sizes.len()).filter(|dim| sizes[*dim] != 1).collect();
    let mut coordinates = vec![Coordinate::Constant(0); sizes.len()];
    let Some((first, inner)) = kept.split_first() else { return Ok(coordinates) };
    let elements = vec![DType::I32; kept.len()];
    let wide = linear.ty.element == DType::I64;
    let tiles = builder.map(&[linear], &linear.ty.layout, &elements, |scalar, values| {
        let mut rest = values[0];
        let mut found = Vec::new();
        for dim in inner.iter().rev() {
            let (quotient, remainder) =
                if wide { sizes[*dim].div_rem_wide(scalar, rest)? } else { sizes[*dim].div_rem(scalar, rest)? };
            found.push(remainder);
            rest = quotient;
        }
        found.push(if wide { scalar.convert("arith.trunci", rest, DType::I32)? } else { rest });
        found.reverse();
        Ok(found)
    })?;
    for (dim, tile) in std::iter::once(first).chain(inner).zip(tiles) {
        coordinates[*dim] = Coordinate::Tile(tile);
    }
    Ok(coordinates)
}

/// start + 0, 1, 2, … along a dimension of a tile, as a line that spreads over `layout` without conversion.
pub fn line<'m>(
    builder: TileBuilder<'m>,
    layout: &TileLayout,
    dimension: usize,
    start: tenon_ir::Value<'m>,
) -> Result<Tile<'m>, LoweringError> {
    let line = line_layout(layout, dimension)?;
    let iota = builder.iota(0, &line)?;
    Ok(builder.map1(&[&iota], &line, DType::I32, |scalar, values| Ok(scalar.add(values[0], start)?))?)
}
