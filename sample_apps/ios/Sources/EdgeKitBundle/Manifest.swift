import Foundation

/// What this package reads of a bundle's `manifest.json`.
public struct Manifest: Decodable, Sendable {
    public struct Model: Decodable, Sendable {
        /// The model's file or folder, relative to the bundle.
        public let main: String
    }

    /// An input or output by its ONNX name, and what the built model calls it.
    public struct Feature: Decodable, Sendable {
        public let name: String
        public let nativeName: String
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
        /// What an output has to reach against the original model's.
        public struct Output: Decodable, Sendable {
            public let name: String
            /// Least signal-to-noise ratio in dB, of floating-point outputs.
            public let floorDb: Double?
            /// Greatest share of unequal elements, of all other outputs.
            public let maxMismatch: Double?
        }

        /// Number of samples: the folders `golden/0`, `golden/1`, …
        public let samples: Int
        public let outputs: [Output]
    }

    public let name: String
    public let model: Model
    public let inputs: [Feature]
    public let outputs: [Feature]
    /// Names of the classes by index.
    public let labels: [String]?
    public let preprocessing: Preprocessing?
    public let golden: Golden

    /// How a picture becomes the input; nil where the bundle takes something else.
    public var imagePreprocessing: ImagePreprocessing? {
        if case .image(let declared) = preprocessing { declared } else { nil }
    }

    /// Reads the manifest of the bundle in `folder`.
    public init(folder: URL) throws {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let data = try Data(contentsOf: folder.appendingPathComponent("manifest.json"))
        self = try decoder.decode(Manifest.self, from: data)
    }
}
