import CoreML
import Foundation

/// How far one output is from the golden one, over all golden samples.
public struct OutputReport: Sendable, Equatable {
    public let name: String
    public let passed: Bool
    /// What makes a comparison impossible; empty otherwise.
    public let problem: String
    public let maxAbsError: Double
    /// Signal-to-noise ratio; nil for outputs judged by their unequal elements, and where there is no noise at all.
    public let sqnrDb: Double?
    /// Share of unequal elements; of a floating-point output those that are infinite or NaN on one side only.
    public let mismatch: Double
}

/// What a device makes of a bundle's golden samples.
public struct GoldenReport: Sendable, Equatable {
    public let passed: Bool
    public let executedBy: String
    public let outputs: [OutputReport]
}

extension ModelBundle {
    /// Runs the golden samples on this device and compares the outputs with the golden ones.
    ///
    /// These are the original model's, or where the manifest says so those that the build computed when it was packaged:
    /// a very small model may be too far from the original for a comparison with it to prove anything.
    public func runGoldenCheck(computeUnits: MLComputeUnits = .all) async throws -> GoldenReport {
        try report(on: try await runGoldenSamples(computeUnits: computeUnits))
    }

    /// Compares what a device computed with the golden outputs.
    public func report(on results: GoldenResults) throws -> GoldenReport {
        guard let build = manifest.builds.first(where: { $0.target.profile == results.profile }) else {
            throw ValueError.noBuild([results.profile])
        }
        var tallies = build.golden.outputs.map(OutputTally.init)
        for (sample, computed) in results.samples.enumerated() {
            for (position, output) in computed.outputs.enumerated() {
                let kind = build.golden.outputs[position].folder ?? "outputs"
                let wanted = try golden(sample: sample, kind: kind, position: position).values
                tallies[position].add(wanted: wanted, found: output.elements)
            }
        }
        let reports = tallies.map(\.report)
        return GoldenReport(
            passed: reports.allSatisfy(\.passed), executedBy: results.executedBy, outputs: reports)
    }
}

/// Sums up how far one output is from the golden one.
struct OutputTally {
    private let judged: Manifest.Golden.Output
    private var problem = ""
    private var signal = 0.0
    private var noise = 0.0
    private var maxAbsError = 0.0
    private var unequal = 0
    private var elements = 0

    init(_ judged: Manifest.Golden.Output) {
        self.judged = judged
    }

    mutating func add(wanted: [Double], found: [Double]) {
        guard wanted.count == found.count else {
            problem = "\(found.count) elements instead of \(wanted.count)"
            return
        }
        elements += wanted.count
        for (want, got) in zip(wanted, found) {
            let same = want == got || (want.isNaN && got.isNaN)
            if judged.floorDb == nil {
                unequal += same ? 0 : 1
            } else if want.isFinite && got.isFinite {
                signal += want * want
                noise += (got - want) * (got - want)
                maxAbsError = max(maxAbsError, abs(got - want))
            } else if !same {
                unequal += 1
                problem = "infinite or NaN on one side only"
            }
        }
    }

    /// 10 log10 of the golden output's energy over the error's energy.
    var decibels: Double {
        if noise == 0 { return .infinity }
        return signal > 0 ? 10 * log10(signal / noise) : -.infinity
    }

    var report: OutputReport {
        let mismatch = elements == 0 ? 0 : Double(unequal) / Double(elements)
        let near: Bool
        if let floor = judged.floorDb {
            near = decibels >= floor
        } else {
            near = judged.maxMismatch.map { mismatch <= $0 } ?? true
        }
        return OutputReport(
            name: judged.name,
            passed: near && problem.isEmpty,
            problem: problem,
            maxAbsError: maxAbsError,
            sqnrDb: judged.floorDb == nil || !decibels.isFinite ? nil : decibels,
            mismatch: mismatch
        )
    }
}
