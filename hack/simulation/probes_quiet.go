// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// probeTakenBack judges how soon changes are corrected after users have often made two in a row, and taken back the second themselves: the
// program had nothing to undo.
func probeTakenBack(w *walk) {
	refs := w.owned()
	if len(refs) == 0 {
		return
	}
	for range 12 {
		w.changeOwned(refs[0])
		w.sleep(300 * time.Millisecond)
		corrected := w.get(refs[0])
		if corrected == nil {
			return
		}
		w.changeOwned(refs[0])
		w.sleep(100 * time.Millisecond)
		w.tell(user, w.change(refs[0], func(o *object) string {
			version := o.GetResourceVersion()
			o.Object = corrected.DeepCopy().Object
			o.SetResourceVersion(version)
			return "takes back the change of"
		}))
		w.sleep(time.Minute)
	}
	w.judgeQuiet(refs[0])
}

// judgeQuiet judges how soon changes are corrected after a quiet time: at once, and soon again, unless what the program writes is rejected.
func (w *walk) judgeQuiet(ref reference) {
	corrects := func(r *request) bool { return w.isCorrection(r) && r.ref == ref }
	for range 2 {
		since := time.Now()
		w.changeOwned(ref)
		w.sleep(soonTime)
		if made := w.requested(since, corrects); len(made) > 0 {
			continue
		}
		w.sleep(maxRetryDelay)
		if made := w.requested(since, corrects); len(made) > 0 {
			w.violated(FreshPause, "%s later, %s: %s", made[0].Sent.Sub(since), made[0].Client, made[0])
		}
		return
	}
}
