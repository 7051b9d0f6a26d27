import CoreGraphics
import CoreML
import EdgeKitBundle
import Foundation
import Observation

/// Classifies drawings with the bundle in the app, and checks that this device computes the bundle's golden results.
@MainActor
@Observable
final class DigitClassifier {
    struct Answer: Equatable {
        let label: String
        let probability: Double
        let milliseconds: Double
    }

    enum State: Equatable {
        case loading
        case ready
        case failed(String)
    }

    private(set) var state = State.loading
    private(set) var answer: Answer?
    /// The report of the golden check; nil while the check runs.
    private(set) var report: GoldenReport?
    /// A file with this device's results, for `edgekit verify BUNDLE --results FILE`; nil while the check runs.
    private(set) var resultsFile: URL?

    private var bundle: ModelBundle?
    private var model: MLModel?

    /// Loads the model, then runs the golden check.
    func start() async {
        do {
            guard let folder = Bundle.module.url(forResource: "digits-ios18", withExtension: nil) else {
                state = .failed("The app has no bundle in it: see README.md.")
                return
            }
            let bundle = try ModelBundle(folder: folder)
            model = try await bundle.loadModel()
            self.bundle = bundle
            state = .ready
            let results = try await bundle.runGoldenSamples()
            report = try bundle.report(on: results)
            resultsFile = try saved(results, of: bundle)
        } catch {
            state = .failed(error.localizedDescription)
        }
    }

    private func saved(_ results: GoldenResults, of bundle: ModelBundle) throws -> URL {
        let file = FileManager.default.temporaryDirectory
            .appendingPathComponent("\(bundle.manifest.name).results.json")
        try results.json().write(to: file)
        return file
    }

    /// Classifies a picture of a digit, white on black.
    func classify(_ picture: CGImage) {
        guard let bundle, let model, let preprocessing = bundle.manifest.imagePreprocessing else {
            return
        }
        do {
            let name = bundle.manifest.inputs[0].nativeName
            let array = try model.inputArray(preprocessing.input(for: picture), named: name)
            let start = ContinuousClock.now
            let results = try model.outputs(for: [name: array])
            let elapsed = ContinuousClock.now - start
            let scores = try results.outputValues(named: bundle.manifest.outputs[0].nativeName)
            let probabilities = Manifest.Classes.Scores.logits.probabilities(of: scores)
            let told = bundle.manifest.classes.map { $0.probabilities(of: scores) } ?? probabilities
            answer = best(of: told ?? [], labels: bundle.manifest.labels, after: elapsed)
        } catch {
            state = .failed(error.localizedDescription)
        }
    }

    func clear() {
        answer = nil
    }

    private func best(of probabilities: [Double], labels: [String]?, after elapsed: Duration) -> Answer? {
        guard let most = probabilities.max(), let index = probabilities.firstIndex(of: most) else {
            return nil
        }
        return Answer(
            label: labels?[index] ?? String(index),
            probability: most,
            milliseconds: elapsed / .milliseconds(1)
        )
    }
}
