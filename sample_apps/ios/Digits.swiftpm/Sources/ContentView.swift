import SwiftUI

struct ContentView: View {
    let classifier: DigitClassifier
    @State private var strokes: [[CGPoint]] = []

    var body: some View {
        VStack(spacing: 20) {
            Text(answer)
                .font(.title2)
                .frame(minHeight: 60)
            DrawingView(strokes: $strokes) {
                if let picture = DigitPicture.render(strokes) {
                    classifier.classify(picture)
                }
            }
            Button("Clear") {
                strokes = []
                classifier.clear()
            }
            .buttonStyle(.bordered)
            check
                .font(.footnote)
                .multilineTextAlignment(.center)
            if let file = classifier.resultsFile {
                ShareLink("Results for edgekit verify", item: file)
                    .font(.footnote)
            }
        }
        .padding()
    }

    private var answer: String {
        switch (classifier.state, classifier.answer) {
        case (.loading, _): return "Loading…"
        case (.failed(let reason), _): return reason
        case (.ready, nil): return "Draw a digit."
        case (.ready, let answer?):
            let probability = answer.probability.formatted(.percent.precision(.fractionLength(1)))
            let time = answer.milliseconds.formatted(.number.precision(.fractionLength(1)))
            return "This is a \(answer.label) (\(probability), \(time) ms)."
        }
    }

    @ViewBuilder private var check: some View {
        if let report = classifier.report {
            if report.passed {
                Label("Golden check passed: this device computes what it should.", systemImage: "checkmark.seal")
                    .foregroundStyle(.green)
            } else {
                Label("Golden check not passed: do not trust the answers.", systemImage: "exclamationmark.triangle")
                    .foregroundStyle(.red)
            }
        } else if classifier.state == .ready {
            ProgressView("Golden check running…")
        }
    }
}
