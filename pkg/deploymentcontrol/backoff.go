// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentcontrol

import (
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"

	samplev1alpha1 "k8s.io/sample-controller/pkg/apis/samplecontroller/v1alpha1"
	"k8s.io/sample-controller/pkg/foostatus"
)

// overrideDelay is added to the backoff before a Deployment that stays in its desired state is no longer reported as overridden, because
// another instance with the same backoff may be about to change it.
const overrideDelay = 2 * time.Second

// StartBackoff starts the backoff of a Foo's writes, or doubles it if they were in backoff before. rejection is the error because of which
// it starts, or nil if another client changes or deletes what is written.
func (c *Control) StartBackoff(foo *samplev1alpha1.Foo, rejection error) {
	c.backoff.Next(backoffID(foo), time.Now())
	if rejection == nil {
		c.rejections.Delete(cache.MetaObjectToName(foo))
	} else {
		c.rejections.Store(cache.MetaObjectToName(foo), rejection)
	}
}

// AsStalled returns the error of a write as a StalledError, and starts the backoff, if the API server rejects what was written.
func (c *Control) AsStalled(foo *samplev1alpha1.Foo, err error) error {
	stalled := foostatus.AsStalled(err)
	if stalled != err {
		c.StartBackoff(foo, stalled)
	}
	return stalled
}

// Backoff returns how long the last backoff of a Foo's writes lasts or has lasted, and 0 if there was none for its newest spec.
func (c *Control) Backoff(foo *samplev1alpha1.Foo) time.Duration {
	return c.backoff.Get(backoffID(foo))
}

// IsInBackoff reports whether the backoff of a Foo's writes is not over yet.
func (c *Control) IsInBackoff(foo *samplev1alpha1.Foo) bool { return c.isInBackoff(foo, 0) }

// isInBackoff reports whether the backoff of a Foo's writes is not over yet, or ended less than the given time ago.
func (c *Control) isInBackoff(foo *samplev1alpha1.Foo, ago time.Duration) bool {
	return c.backoff.IsInBackOffSinceUpdate(backoffID(foo), time.Now().Add(-ago))
}

// LastRejection returns the error because of which the backoff of a Foo's writes started, if the API server rejected one, and nil
// otherwise. The Foo's status may not say so, if it could not be written.
func (c *Control) LastRejection(foo *samplev1alpha1.Foo) error {
	if rejection, ok := c.rejections.Load(cache.MetaObjectToName(foo)); ok {
		return rejection.(error)
	}
	return nil
}

// LastOverride returns the error that the status of a Foo reports if its Deployment, which is in its desired state, was overridden shortly
// before, and nil otherwise.
func (c *Control) LastOverride(foo *samplev1alpha1.Foo) error {
	if c.isInBackoff(foo, overrideDelay) {
		return foostatus.Reported(foo, foostatus.DeploymentOverridden)
	}
	return nil
}

// ResetBackoff makes the next backoff of a Foo's writes the shortest one, unless the last one is not over yet.
func (c *Control) ResetBackoff(foo *samplev1alpha1.Foo) {
	if !c.IsInBackoff(foo) {
		c.backoff.Reset(backoffID(foo))
	}
}

// Forget removes what is known about a Foo that does not exist anymore.
func (c *Control) Forget(foo cache.ObjectName) { c.rejections.Delete(foo) }

func backoffID(foo *samplev1alpha1.Foo) string { return fmt.Sprintf("%s/%d", foo.UID, foo.Generation) }
