import Foundation

/// What this package reads of a bundle's `manifest.json`.
public struct Manifest: Decodable, Sendable {
    public struct Model: Decodable, Sendable {
        /// The model's file or folder, relative to the bundle.
        public let main: String
        /// Files and folders that the model consists of.
        let files: [String]
    }

    /// A file of the bundle.
    struct File: Decodable, Sendable {
        /// Relative to the bundle.
        let path: String
        /// In lower-case hexadecimal digits.
        let sha256: String
    }

    /// An input or output by its ONNX name, and what the built model calls it.
    public struct Feature: Decodable, Sendable {
        public let name: String
        public let nativeName: String
        /// Such as `float32`.
        public let nativeDtype: String
        /// The sizes that the built model takes; nil for a dimension that is open.
        public let nativeShape: [Int?]

        private enum CodingKeys: CodingKey {
            case name, nativeName, nativeDtype, nativeShape
        }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            name = try container.decode(String.self, forKey: .name)
            nativeName = try container.decode(String.self, forKey: .nativeName)
            nativeDtype = try container.decode(String.self, forKey: .nativeDtype)
            nativeShape = try container.decode([Dimension].self, forKey: .nativeShape).map(\.size)
        }
    }

    /// A size, or the name of an open dimension, which has none.
    private struct Dimension: Decodable {
        let size: Int?

        init(from decoder: any Decoder) throws {
            size = try? decoder.singleValueContainer().decode(Int.self)
        }
    }

    /// How something becomes the model's only input.
    public enum Preprocessing: Decodable, Sendable {
        case image(ImagePreprocessing)
        /// A kind that this package does not know.
        case other(String)

        private enum CodingKeys: CodingKey {
            case kind
        }

        public init(from decoder: any Decoder) throws {
            let kind = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .kind)
            self = kind == "image" ? .image(try ImagePreprocessing(from: decoder)) : .other(kind)
        }
    }

    public struct Golden: Decodable, Sendable {
        /// What an output has to reach against the golden one.
        public struct Output: Decodable, Sendable {
            public let name: String
            /// Least signal-to-noise ratio in dB, of floating-point outputs.
            public let floorDb: Double?
            /// Greatest share of unequal elements, of all other outputs.
            public let maxMismatch: Double?
            /// The folder of a golden sample that holds the golden output: `outputs`, the original model's, or what this
            /// build computed when it was packaged; nil in older bundles, which have the original's alone.
            var folder: String?
        }

        /// Number of samples: the folders `golden/0`, `golden/1`, …
        public let samples: Int
        public let outputs: [Output]
    }

    /// What tells the class.
    public struct Classes: Decodable, Sendable {
        /// What an output's numbers are, one for each class.
        public enum Scores: String, Decodable, Sendable {
            /// Probabilities that add up to 1.
            case probabilities
            /// Numbers of which softmax makes probabilities.
            case logits
            /// A probability each: several classes may be there at once, or none.
            case independent
            /// Integers whose largest is the class's, and of which no probabilities follow.
            case integers
        }

        /// The output's ONNX name.
        public let output: String
        /// nil where the output gives a class number.
        public let scores: Scores?
        /// Where integers stand for scores: a score is (integer - zeroPoint) * scale. nil for others.
        public let scale: Double?
        public let zeroPoint: Int?

        /// The probability of each class for the output's numbers; nil where the numbers do not say it.
        public func probabilities(of numbers: [Double]) -> [Double]? {
            guard let scores, scores != .integers else { return nil }
            let (scale, zeroPoint) = (scale ?? 1, Double(zeroPoint ?? 0))
            return scores.probabilities(of: numbers.map { ($0 - zeroPoint) * scale })
        }
    }

    /// What was found when the model was judged.
    struct Accuracy: Decodable, Sendable {
        /// What outputs tell beyond numbers.
        struct Meaning: Decodable, Sendable {
            /// nil where they tell something else.
            let boxes: DeclaredBoxes?
        }

        /// nil where that is not known.
        let meaning: Meaning?
    }

    /// A kind of device.
    public struct Target: Decodable, Sendable {
        public let profile: String
    }

    /// The model as it was built for one kind of device.
    public struct Build: Decodable, Sendable {
        /// What it has to reach on the golden samples.
        public struct Floors: Decodable, Sendable {
            public let outputs: [Golden.Output]
        }

        public let target: Target
        public let model: Model
        public let inputs: [Feature]
        public let outputs: [Feature]
        /// Empty or nil where the model keeps nothing.
        public let states: [State]?
        public let golden: Floors
    }

    static let fileName = "manifest.json"

    /// What the model keeps from one run to the next.
    public struct State: Decodable, Sendable {
        public let name: String
    }

    public let name: String
    public let target: Target
    public let model: Model
    public let inputs: [Feature]
    public let outputs: [Feature]
    /// Builds for further kinds of device; nil where there are none.
    public let also: [Build]?
    /// Empty or nil where the model keeps nothing.
    public let states: [State]?
    /// Names of the classes by index.
    public let labels: [String]?
    /// nil where no output tells a class, and in older bundles.
    public let classes: Classes?
    public let preprocessing: Preprocessing?
    public let golden: Golden
    /// All files but the manifest itself, its signature and the measured times.
    let files: [File]
    /// nil in a bundle that says nothing of it.
    let accuracy: Accuracy?

    /// All builds of the model, the main one first.
    public var builds: [Build] {
        let floors = Build.Floors(outputs: golden.outputs)
        let main = Build(
            target: target, model: model, inputs: inputs, outputs: outputs, states: states, golden: floors)
        return [main] + (also ?? [])
    }

    /// The first build whose model has this suffix.
    func build(suffix: String) -> Build? {
        builds.first { ($0.model.main as NSString).pathExtension == suffix }
    }

    /// How a picture becomes the input; nil where the bundle takes something else.
    public var imagePreprocessing: ImagePreprocessing? {
        if case .image(let declared) = preprocessing { declared } else { nil }
    }

    /// Reads the manifest of the bundle in `folder`.
    public init(folder: URL) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let data = try Data(contentsOf: folder.appendingPathComponent(Self.fileName))
        self = try decoder.decode(Manifest.self, from: data)
    }
}
