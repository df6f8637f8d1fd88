//! Where in a tensor each place of a tile looks.

use tenon_hw_dialect::{Tile, TileBuilder, line_layout};
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use crate::LoweringError;
use crate::schedule::body::strides;

/// A coordinate of every place: one number, or a tile of i32.
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
    pub sizes: Vec<u32>,
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
pub type IndexKey = (Vec<u32>, bool, Option<usize>, Option<Vec<Result<usize, i32>>>);

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
    pub fn from_linear(sizes: &[u32], linear: Tile<'m>, contiguity: u32) -> Self {
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
        sizes: &[u32],
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
        offset(builder, &coordinates, &strides(&self.sizes), &self.layout)
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
    pub fn reshaped(&self, builder: TileBuilder<'m>, sizes: &[u32]) -> Result<Self, LoweringError> {
        if sizes == self.sizes {
            return Ok(self.clone());
        }
        let linear = self.linear(builder)?;
        // Registers that are consecutive numbers stay so; the end of a shorter last dimension may come between them.
        let contiguity = common(self.contiguity, sizes.last().copied().unwrap_or(1));
        Ok(Index { own: self.own, ..Index::from_linear(sizes, linear, contiguity) })
    }

    /// The element of a tensor that NumPy broadcasts to this index's shape.
    pub fn broadcast_from(&self, builder: TileBuilder<'m>, sizes: &[u32]) -> Result<Self, LoweringError> {
        if sizes == self.sizes {
            return Ok(self.clone());
        }
        if sizes.iter().product::<u32>() == self.sizes.iter().product::<u32>() {
            // Only dimensions of 1 were put in.
            return self.reshaped(builder, sizes);
        }
        if sizes.iter().all(|size| *size == 1) {
            let coordinates = vec![Coordinate::Constant(0); sizes.len()];
            return Ok(Index::from_coordinates(sizes, coordinates, &self.layout, 1));
        }
        // A trailing part of the shape: the number modulo its size.
        let stripped: Vec<u32> = sizes.iter().copied().skip_while(|size| *size == 1).collect();
        if let Some(linear) = &self.linear
            && self.sizes.ends_with(&stripped)
        {
            let count: u32 = stripped.iter().product();
            let linear = builder.map1(&[linear], &self.layout, DType::I32, |scalar, values| {
                Ok(scalar.div_rem(values[0], count as i32)?.1)
            })?;
            return Ok(Index::from_linear(sizes, linear, self.contiguity));
        }
        let coordinates = self.coordinates(builder)?;
        let skipped = self.sizes.len() - sizes.len();
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
pub fn common(contiguity: u32, size: u32) -> u32 {
    if size == 0 { contiguity } else { contiguity.min(1 << size.trailing_zeros()) }
}

/// Σ coordinate · stride.
pub fn offset<'m>(
    builder: TileBuilder<'m>,
    coordinates: &[Coordinate<'m>],
    strides: &[u32],
    layout: &TileLayout,
) -> Result<Tile<'m>, LoweringError> {
    let mut constant = 0i32;
    let mut tiles = Vec::new();
    let mut factors = Vec::new();
    for (coordinate, stride) in coordinates.iter().zip(strides) {
        match coordinate {
            Coordinate::Constant(value) => constant = constant.wrapping_add(value.wrapping_mul(*stride as i32)),
            Coordinate::Tile(tile) => {
                tiles.push(tile);
                factors.push(*stride as i32);
            }
        }
    }
    if tiles.is_empty() {
        return Ok(builder.splat(builder.scalar().i32(constant)?, DType::I32, layout)?);
    }
    Ok(builder.map1(&tiles, layout, DType::I32, |scalar, values| {
        let mut sum = scalar.scale(values[0], factors[0])?;
        for (value, factor) in values.iter().zip(&factors).skip(1) {
            sum = scalar.add(sum, scalar.scale(*value, *factor)?)?;
        }
        Ok(scalar.offset(sum, constant)?)
    })?)
}

/// Coordinates of a row-major number.
pub fn delinearize<'m>(
    builder: TileBuilder<'m>,
    linear: &Tile<'m>,
    sizes: &[u32],
) -> Result<Vec<Coordinate<'m>>, LoweringError> {
    // Dimensions of 1 are always 0; the outermost other one needs no remainder.
    let kept: Vec<usize> = (0..sizes.len()).filter(|dim| sizes[*dim] != 1).collect();
    let mut coordinates = vec![Coordinate::Constant(0); sizes.len()];
    let Some((first, inner)) = kept.split_first() else { return Ok(coordinates) };
    let elements = vec![DType::I32; kept.len()];
    let tiles = builder.map(&[linear], &linear.ty.layout, &elements, |scalar, values| {
        let mut rest = values[0];
        let mut found = Vec::new();
        for dim in inner.iter().rev() {
            let (quotient, remainder) = scalar.div_rem(rest, sizes[*dim].max(1) as i32)?;
            found.push(remainder);
            rest = quotient;
        }
        found.push(rest);
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
