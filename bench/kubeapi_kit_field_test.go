//go:build field

package main

import (
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	createOptions metav1.CreateOptions
	updateOptions metav1.UpdateOptions
)

func newLease(name string) *coordination.Lease {
	return &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func isConflict(err error) bool { return apierrors.IsConflict(err) }
func isExists(err error) bool   { return apierrors.IsAlreadyExists(err) }
