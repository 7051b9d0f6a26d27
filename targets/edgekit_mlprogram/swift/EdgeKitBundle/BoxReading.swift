import Foundation

/// How boxes are read from a model's outputs.
protocol BoxReading: Sendable {
    /// Whether the model suppresses boxes that overlap itself.
    var areSuppressed: Bool { get }

    /// The boxes of a score from `confidence` on, in pixels of the input.
    ///
    /// - Parameters:
    ///   - outputs: The elements of each output, row by row, by its ONNX name.
    ///   - width: The input's, in pixels; as its `height`.
    func boxes(
        in outputs: [String: [Double]], width: Double, height: Double, confidence: Double
    ) throws -> [ScoredBox]

    /// The names of the classes that boxes may have; nil where they are not the model's.
    func names(of labels: [String]?) -> [String]?
}

/// How boxes are read, as the manifest declares.
enum DeclaredBoxes: Decodable, Sendable {
    case rows(BoxRows)
    case grids(BoxGrids)
    case other(String)

    private enum CodingKeys: CodingKey {
        case form
    }

    init(from decoder: any Decoder) throws {
        let form = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .form)
        switch form {
        case "rows": self = .rows(try BoxRows(from: decoder))
        case "grids": self = .grids(try BoxGrids(from: decoder))
        default: self = .other(form)
        }
    }

    func reading() throws -> any BoxReading {
        switch self {
        case .rows(let rows) where rows.order == nil: throw DetectorError.unknownOrder
        case .rows(let rows): return rows
        case .grids(let grids): return grids
        case .other(let form): throw DetectorError.unknownForm(form)
        }
    }
}

/// A row a box, in one output or in the same row of several.
struct BoxRows: BoxReading, Decodable {
    /// Neighbouring columns of the table that an output is.
    struct Columns: Decodable, Sendable {
        let output: String
        /// How many numbers a row has.
        let width: Int
        let first: Int
        let count: Int
        /// Whether the output holds column after column in place of row after row.
        let turned: Bool

        func table(of outputs: [String: [Double]]) throws -> Table {
            guard let values = outputs[output] else {
                throw ValueError.noSuchFeature(output)
            }
            let rows = values.count / width
            guard rows * width == values.count else {
                throw ValueError.otherSize(output, expected: (rows + 1) * width, found: values.count)
            }
            return Table(values: values, rows: rows, columns: self)
        }
    }

    struct Table {
        let values: [Double]
        let rows: Int
        let columns: Columns

        /// A number of a row, counted from the first of the columns.
        subscript(row: Int, place: Int) -> Double {
            let column = columns.first + place
            return columns.turned ? values[column * rows + row] : values[row * columns.width + column]
        }
    }

    enum Coordinates: String, Decodable, Sendable {
        case corners
        case centreAndSize = "centre_and_size"
        /// Offset of the centre from the row's cell and logarithms of width and height, in cells.
        case offsetAndLogSize = "offset_and_log_size"
    }

    /// A grid of the input whose cells are neighbouring rows, line by line.
    struct Cells: Decodable, Sendable {
        /// Pixels from cell to cell.
        let stride: Int
        /// Cells in a row.
        let width: Int
        /// Cells in a column.
        let height: Int
    }

    enum Unit: String, Decodable, Sendable {
        case pixel, share
    }

    enum Order: String, Decodable, Sendable {
        case xy, yx
    }

    /// What makes scores from 0 to 1 of a row's numbers.
    enum Activation: String, Decodable, Sendable {
        case none, logistic, softmax
    }

    let suppressed: Bool
    let coordinates: Columns
    let coordinatesAre: Coordinates
    let unit: Unit
    /// nil where that is not known.
    let order: Order?
    /// One a class, or a single one where `classes` tell the class.
    let scores: Columns
    let activation: Activation
    /// The class that stands for nothing, left out before the others are counted.
    let background: Int?
    /// The factor of all scores of a box.
    let objectness: Columns?
    /// nil where the largest score tells the class.
    let classes: Columns?
    /// The grids whose cells the rows are, one grid after the other; nil where rows are no cells.
    let cells: [Cells]?

    var areSuppressed: Bool { suppressed }

    func boxes(
        in outputs: [String: [Double]], width: Double, height: Double, confidence: Double
    ) throws -> [ScoredBox] {
        let places = try coordinates.table(of: outputs)
        let told = try scores.table(of: outputs)
        let factors = try objectness?.table(of: outputs)
        let kinds = try classes?.table(of: outputs)
        for table in [told, factors, kinds].compactMap({ $0 }) where table.rows != places.rows {
            throw ValueError.otherSize(table.columns.output, expected: places.rows, found: table.rows)
        }
        return (0..<places.rows).compactMap { row in
            let factor = factors?[row, 0] ?? 1
            var (index, score) = best(of: told, row: row, factor: factor)
            if let kinds {
                index = Int(exactly: kinds[row, 0].rounded(.towardZero)) ?? -1
            }
            let corners = corners(of: places, row: row, width: width, height: height)
            // Rows that hold no box have a class below 0.
            guard score >= confidence, index >= 0, corners.isFinite else { return nil }
            score = min(score, 1)
            return ScoredBox(corners: corners, score: score, index: index)
        }
    }

    /// The class with the largest score, the first of several, and that score.
    private func best(of table: Table, row: Int, factor: Double) -> (index: Int, score: Double) {
        let places = (0..<scores.count).filter { $0 != background }
        guard let best = places.max(by: { table[row, $0] < table[row, $1] }) else { return (-1, 0) }
        let number = table[row, best]
        let score: Double
        switch activation {
        case .none: score = number
        case .logistic: score = 1 / (1 + exp(-number))
        case .softmax: score = 1 / (0..<scores.count).reduce(0) { $0 + exp(table[row, $1] - number) }
        }
        return (background.map { best > $0 ? best - 1 : best } ?? best, score * factor)
    }

    private func corners(of table: Table, row: Int, width: Double, height: Double) -> Corners {
        let (horizontal, vertical) = unit == .share ? (width, height) : (1, 1)
        let swap = order == .yx ? 1 : 0
        let (x, y) = (table[row, swap] * horizontal, table[row, 1 - swap] * vertical)
        let (third, fourth) = (table[row, 2 + swap] * horizontal, table[row, 3 - swap] * vertical)
        switch coordinatesAre {
        case .corners: return Corners(left: x, top: y, right: third, bottom: fourth)
        case .centreAndSize:
            return Corners(
                left: x - third / 2, top: y - fourth / 2, right: x + third / 2, bottom: y + fourth / 2)
        case .offsetAndLogSize:
            return cornersFromCell(of: table, row: row)
        }
    }

    /// Rows behind the last cell have no place.
    private func cornersFromCell(of table: Table, row: Int) -> Corners {
        var place = row
        for grid in cells ?? [] {
            guard place >= grid.width * grid.height else {
                let (column, line, step) = (place % grid.width, place / grid.width, Double(grid.stride))
                let (x, y) = (Double(column) + table[row, 0], Double(line) + table[row, 1])
                let (width, height) = (exp(table[row, 2]) / 2, exp(table[row, 3]) / 2)
                return Corners(
                    left: (x - width) * step, top: (y - height) * step,
                    right: (x + width) * step, bottom: (y + height) * step)
            }
            place -= grid.width * grid.height
        }
        return Corners(left: .nan, top: .nan, right: .nan, bottom: .nan)
    }

    func names(of labels: [String]?) -> [String]? {
        guard let labels, classes == nil else { return labels }
        if let background, labels.count == scores.count {
            return labels.enumerated().filter { $0.offset != background }.map(\.element)
        }
        return labels.count == scores.count - (background == nil ? 0 : 1) ? labels : nil
    }
}

/// Offsets from the cells of several grids of the input.
struct BoxGrids: BoxReading, Decodable {
    struct Grid: Decodable, Sendable {
        /// Pixels from cell to cell.
        let stride: Int
        /// Cells in a row.
        let width: Int
        /// Boxes a cell.
        let anchors: Int
        /// The output with four offsets a row, in cells, of `bins` numbers each.
        let boxes: String
        /// Of several numbers, softmax makes shares of the distances 0, 1, 2 and so on, whose mean is the offset; nil
        /// for one.
        let bins: Int?
        /// Outputs whose geometric mean, each from 0 to 1, is the score.
        let scores: [String]
    }

    enum Offsets: String, Decodable, Sendable {
        case distances
        case centreAndLogSize = "centre_and_log_size"
    }

    let suppressed: Bool
    let offsets: Offsets
    /// Where in its cell an offset begins, as a share of the cell's sides; nil for its corner.
    let origin: Double?
    let grids: [Grid]

    var areSuppressed: Bool { suppressed }

    func boxes(
        in outputs: [String: [Double]], width: Double, height: Double, confidence: Double
    ) throws -> [ScoredBox] {
        try grids.flatMap { try boxes(of: $0, in: outputs, confidence: confidence) }
    }

    private func boxes(of grid: Grid, in outputs: [String: [Double]], confidence: Double) throws -> [ScoredBox] {
        guard let numbers = outputs[grid.boxes] else {
            throw ValueError.noSuchFeature(grid.boxes)
        }
        let rows = numbers.count / (4 * (grid.bins ?? 1))
        let factors = try grid.scores.map { name in
            guard let values = outputs[name] else {
                throw ValueError.noSuchFeature(name)
            }
            guard rows > 0, values.count.isMultiple(of: rows) else {
                throw ValueError.otherSize(name, expected: rows, found: values.count)
            }
            return values
        }
        return (0..<rows).compactMap { row in
            let (index, score) = best(of: factors, row: row, rows: rows)
            let corners = corners(of: numbers, row: row, in: grid)
            return score >= confidence && corners.isFinite ? ScoredBox(corners: corners, score: score, index: index) : nil
        }
    }

    /// The class with the largest score, the first of several, and that score; a factor of all classes stands alone.
    private func best(of factors: [[Double]], row: Int, rows: Int) -> (index: Int, score: Double) {
        var (index, score) = (-1, -Double.infinity)
        for place in 0..<(factors.map { $0.count / rows }.max() ?? 0) {
            let product = factors.reduce(1.0) { product, values in
                let classes = values.count / rows
                return product * min(max(values[row * classes + (classes == 1 ? 0 : place)], 0), 1)
            }
            let found = pow(product, 1 / Double(factors.count))
            if found > score {
                (index, score) = (place, found)
            }
        }
        return (index, score)
    }

    private func corners(of numbers: [Double], row: Int, in grid: Grid) -> Corners {
        let cell = row / grid.anchors
        let start = origin ?? 0
        let (x, y) = (Double(cell % grid.width) + start, Double(cell / grid.width) + start)
        let four = (0..<4).map { offset(in: numbers, at: 4 * row + $0, bins: grid.bins ?? 1) }
        let step = Double(grid.stride)
        switch offsets {
        case .distances:
            return Corners(
                left: (x - four[0]) * step, top: (y - four[1]) * step, right: (x + four[2]) * step,
                bottom: (y + four[3]) * step)
        case .centreAndLogSize:
            let (width, height) = (exp(four[2]) / 2, exp(four[3]) / 2)
            return Corners(
                left: (x + four[0] - width) * step, top: (y + four[1] - height) * step,
                right: (x + four[0] + width) * step, bottom: (y + four[1] + height) * step)
        }
    }

    private func offset(in numbers: [Double], at place: Int, bins: Int) -> Double {
        guard bins > 1 else { return numbers[place] }
        let logits = numbers[place * bins..<(place + 1) * bins]
        let largest = logits.max() ?? 0
        let powers = logits.map { exp($0 - largest) }
        let weighed = powers.enumerated().reduce(0) { $0 + Double($1.offset) * $1.element }
        return weighed / powers.reduce(0, +)
    }

    func names(of labels: [String]?) -> [String]? { labels }
}
